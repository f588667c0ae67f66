//! Directives that are no part of a site: what Rudy does not need, and what it does not have.

/// What a directive without a verdict is.
pub(super) enum Known {
    Different(&'static str),
    Open { protects: bool, advice: &'static str },
}

/// Directives that Rudy does not need or treats in another way, by their reason.
const DIFFERENT: &[(&str, &str)] = &[
    ("servertokens serversignature traceenable", "Rudy sends no version, and rejects TRACE"),
    (
        "serverroot pidfile user group loadmodule startservers minspareservers maxspareservers maxrequestworkers serverlimit \
         threadsperchild maxconnectionsperchild timeout keepalive maxkeepaliverequests keepalivetimeout mutex hostnamelookups \
         enablesendfile enablemmap usecanonicalname serveradmin contentdigest acceptfilter threadlimit minsparethreads \
         maxsparethreads listenbacklog coredumpdirectory",
        "Rudy has its own processes, limits and defaults (docs/configuration.md)",
    ),
    (
        "errorlog loglevel customlog logformat transferlog globallog",
        "write `access_log` and `error_log` (docs/logs.md)",
    ),
    (
        "allowoverride accessfilename allowoverridelist",
        "Rudy reads no .htaccess: import each of them, and put its routes into the site",
    ),
    (
        "sslengine sslprotocol sslciphersuite sslhonorcipherorder sslsessioncache sslsessioncachetimeout sslusestapling sslstaplingcache \
         sslopensslconfcmd sslcompression sslstaplingrespondertimeout sslstaplingreturnrespondererrors sslrandomseed sslsessiontickets \
         sslproxyciphersuite sslproxyprotocol sslproxyengine sslinsecurerenegotiation sslpassphrasedialog ssloptions browsermatch",
        "Rudy offers only secure versions and cipher suites (docs/tls.md)",
    ),
    (
        "deflatecompressionlevel addoutputfilterbytype deflatefilternote setoutputfilter browsermatchnocase brotlicompressionquality",
        "Rudy compresses files by default (docs/compression.md)",
    ),
    (
        "addtype addcharset addencoding addlanguage addicon addiconbytype addiconbyencoding defaulticon readmename headername \
         indexignore indexoptions typesconfig languagepriority forcelanguagepriority mimemagicfile addhandler sethandler action \
         removehandler removetype removecharset addoutputfilter defaulttype addinputfilter addalt adddescription",
        "Rudy knows the media types of common extensions: see `media_types`",
    ),
    ("fileetag", "Rudy makes entity tags of the size and the time of a file"),
    (
        "options multiviews contentnegotiation",
        "Rudy follows links within the folder, and lists folders with `browse` only",
    ),
    ("expiresactive expiresdefault", "write `cache_control`"),
    (
        "rewriteoptions rewriteengine rewritebase rewritelog rewriteloglevel",
        "the order of routes has the same effect",
    ),
    ("protocols h2direct h2push", "Rudy speaks HTTP/1.1, HTTP/2 and HTTP/3 (docs/http2.md)"),
    (
        "proxyrequests proxyvia proxyaddheaders proxybadheader proxyiobuffersize",
        "Rudy is no forward proxy, and sends X-Forwarded-For",
    ),
    ("proxypassreversecookiedomain proxypassreversecookiepath", "write `rewrite_cookies = true` in `proxy`"),
    (
        "allowencodedslashes directoryslash acceptpathinfo checkspelling",
        "Rudy normalizes paths (docs/configuration.md#path-normalization)",
    ),
    (
        "setenv passenv unsetenv setenvif setenvifnocase",
        "there are no variables: processes have `environment`, and applications `params`",
    ),
    ("php_value php_flag php_admin_value php_admin_flag", "write it into .user.ini, or the pool of php-fpm"),
    (
        "proxypassreverse proxypreservehost proxyset balancermember",
        "it belongs to a `ProxyPass` that is not here",
    ),
    (
        "authname authtype authuserfile authbasicprovider authgroupfile authmerging",
        "no rule requires a login",
    ),
    (
        "directoryindex documentroot servername serveralias listen nameservervirtualhost namevirtualhost",
        "inner sections have their own",
    ),
    ("define undefine servername adddefaultcharset", "Rudy sends text files as UTF-8: see `charset`"),
];

/// Directives without a translation, with what to do; those that protect something are marked.
const OPEN: &[(&str, bool, &str)] = &[
    (
        "limitrequestbody limitrequestfields limitrequestfieldsize limitrequestline requestreadtimeout",
        true,
        "write `body_bytes`, or `limits` (docs/configuration.md#limits-and-timeouts)",
    ),
    (
        "secruleengine secrule secaction securebodyaccess secauditengine dospagecount dossitecount qs_srvmaxconnperip",
        true,
        "let an application decide, with `forward_auth`, and write `rate_limit` (docs/limits.md)",
    ),
    (
        "sslverifyclient sslcacertificatefile sslrequire sslrequiressl sslverifydepth",
        true,
        "write `client_certificates` in `tls` (docs/tls.md#client-certificates)",
    ),
    (
        "require order allow deny satisfy authldapurl authldapbinddn <limit <limitexcept <if <elseif <else <requireany <requireall \
         <requirenone authdigestdomain authdigestprovider",
        true,
        "write it by hand (docs/access.md)",
    ),
    (
        "remoteipheader remoteiptrustedproxy remoteipinternalproxy",
        false,
        "write `trusted_proxies` and `client_address` (docs/proxy.md)",
    ),
    (
        "wsgiscriptalias wsgidaemonprocess wsgiprocessgroup wsgipassauthorization scriptalias",
        false,
        "run the application as a process, behind `proxy` (docs/write-an-app.md)",
    ),
    ("substitute ssilegacyexprparser xbithack", false, "Rudy does not change the content of responses"),
];

/// Looks up a directive that no translation has taken.
pub(super) fn known(name: &str) -> Known {
    let has = |names: &str| names.split(' ').any(|known| known == name);
    if let Some((_, reason)) = DIFFERENT.iter().find(|(names, _)| has(names)) {
        return Known::Different(reason);
    }
    match OPEN.iter().find(|(names, ..)| has(names)) {
        Some((_, protects, advice)) => Known::Open { protects: *protects, advice },
        None => Known::Open {
            protects: false,
            advice: "Rudy has no equivalent that is known: see docs/move-from-apache.md",
        },
    }
}
