<?php
// The test app in PHP.
while (ob_get_level() > 0) {
    ob_end_clean();
}
[, $what] = explode('/', $_SERVER['PATH_INFO'] ?? '/');
header('Content-Type: text/plain');
switch ($what) {
    case 'variables':
        foreach ($_SERVER as $name => $value) {
            if (is_string($value)) {
                echo "$name=$value\n";
            }
        }
        break;
    case 'upload':
        $hash = hash_init('sha256');
        $bytes = 0;
        $body = fopen('php://input', 'rb');
        while (($piece = fread($body, 65536)) !== false && $piece !== '') {
            hash_update($hash, $piece);
            $bytes += strlen($piece);
        }
        echo $bytes, ' ', hash_final($hash);
        break;
    case 'lines':
        foreach ([1, 2, 3] as $n) {
            echo "line $n\n";
            flush();
            while (!file_exists($_SERVER['QUERY_STRING'] . "/$n")) {
                usleep(1000);
                clearstatcache();
            }
        }
        break;
    case 'status':
        http_response_code((int) $_SERVER['QUERY_STRING']);
        break;
    case 'complain':
        error_log("unknown reason: {$_SERVER['QUERY_STRING']}");
        echo 'done';
        break;
    case 'pid':
        echo getmypid();
        break;
}
