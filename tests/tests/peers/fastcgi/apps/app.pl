#!/usr/bin/perl
# The test app in Perl. With a socket as its argument it uses FastCGI, otherwise it is a CGI program.
use strict;
use warnings;
use Digest::SHA;

my $flush = sub { };

sub answer {
    my (undef, $what) = split m{/}, $ENV{PATH_INFO} // '';
    my $query = $ENV{QUERY_STRING} // '';
    my $status = $what eq 'status' ? $query : 200;
    print "Status: $status\r\n";
    print "Content-Type: text/plain\r\n" if $status == 200;
    print "\r\n";
    if ($what eq 'variables') {
        print "$_=$ENV{$_}\n" for sort keys %ENV;
    }
    elsif ($what eq 'upload') {
        my ($hash, $bytes) = (Digest::SHA->new(256), 0);
        while (my $read = read STDIN, my $piece, 65536) {
            $hash->add($piece);
            $bytes += $read;
        }
        print "$bytes ", $hash->hexdigest;
    }
    elsif ($what eq 'lines') {
        for my $n (1 .. 3) {
            print "line $n\n";
            $flush->();
            select undef, undef, undef, 0.001 until -e "$query/$n";
        }
    }
    elsif ($what eq 'complain') {
        print STDERR "unknown reason: $query\n";
        print 'done';
    }
    elsif ($what eq 'pid') {
        print $$;
    }
}

if (@ARGV) {
    require FCGI;
    my $socket = FCGI::OpenSocket($ARGV[0], 128);
    fork // die for 1 .. 1;
    my $request = FCGI::Request(\*STDIN, \*STDOUT, \*STDERR, \%ENV, $socket);
    $flush = sub { $request->Flush };
    answer() while $request->Accept >= 0;
}
else {
    $flush = sub { STDOUT->flush };
    answer();
}
