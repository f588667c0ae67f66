<?php
// The PHP version of `app.rs`: the same queries and responses.
const TAIL = '0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHI';
$seed = $_GET['seed'] ?? '';
$count = (int) ($_GET['count'] ?? 0);
switch ($_GET['do']) {
    case 'blob':
        header('Content-Type: application/octet-stream');
        if (isset($_GET['length'])) {
            header("Content-Length: $count");
        }
        for ($line = 0; $count > 0; $count -= strlen($piece)) {
            for ($piece = ''; strlen($piece) < min($count, 65536); $line++) {
                $piece .= sprintf("%s %08x %s\n", $seed, $line, TAIL);
            }
            $piece = substr($piece, 0, $count);
            echo $piece;
        }
        break;
    case 'sum':
        header('Content-Type: text/plain');
        $input = fopen('php://input', 'r');
        $hash = hash_init('fnv1a64');
        $length = hash_update_stream($hash, $input);
        echo $length, ' ', hash_final($hash), "\n";
        break;
    case 'echo':
        header('Content-Type: application/octet-stream');
        fpassthru(fopen('php://input', 'r'));
        break;
    case 'events':
        header('Content-Type: text/event-stream');
        for ($event = 0; $event < $count; $event++) {
            echo "data: $seed $event\n\n";
            flush();
            usleep(50000);
        }
        break;
    case 'wait':
        header('Content-Type: text/plain');
        usleep($count * 1000);
        echo "$seed\n";
        break;
}
