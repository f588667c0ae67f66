//! Directives that are no part of a site: what Rudy does not need, and what it does not have.

/// Directives that Rudy does not need or treats in another way, by their reason.
const DIFFERENT: &[(&str, &str)] = &[
    (
        "events worker_processes worker_connections worker_rlimit_nofile worker_cpu_affinity worker_priority multi_accept use \
         accept_mutex thread_pool timer_resolution worker_shutdown_timeout pcre_jit master_process",
        "Rudy has a worker for each core, and as many connections as the system permits",
    ),
    (
        "daemon pid lock_file load_module env user working_directory debug_connection",
        "systemd starts Rudy and keeps it running (docs/systemd.md); `user` is a key at the top of rudy.toml",
    ),
    (
        "sendfile sendfile_max_chunk tcp_nopush tcp_nodelay aio aio_write directio directio_alignment output_buffers \
         postpone_output open_file_cache open_file_cache_valid open_file_cache_min_uses open_file_cache_errors \
         open_log_file_cache read_ahead reset_timedout_connection",
        "Rudy decides how it reads files and sends data",
    ),
    (
        "types_hash_max_size types_hash_bucket_size server_names_hash_bucket_size server_names_hash_max_size \
         map_hash_max_size map_hash_bucket_size variables_hash_max_size variables_hash_bucket_size \
         proxy_headers_hash_max_size proxy_headers_hash_bucket_size",
        "Rudy has no sizes of tables to set",
    ),
    (
        "client_body_buffer_size client_body_temp_path client_body_in_file_only client_body_in_single_buffer \
         client_header_buffer_size large_client_header_buffers connection_pool_size request_pool_size proxy_temp_path \
         fastcgi_temp_path uwsgi_temp_path scgi_temp_path proxy_temp_file_write_size fastcgi_temp_file_write_size",
        "Rudy sizes its buffers itself: `buffer_dir` and `limits` are for those who must",
    ),
    (
        "proxy_buffering proxy_buffers proxy_buffer_size proxy_busy_buffers_size fastcgi_buffering fastcgi_buffers \
         fastcgi_buffer_size fastcgi_busy_buffers_size gzip_buffers grpc_buffer_size",
        "Rudy passes a response on as it arrives, and sizes its buffers itself",
    ),
    (
        "proxy_http_version keepalive keepalive_timeout_upstream keepalive_requests proxy_socket_keepalive \
         proxy_ssl_session_reuse fastcgi_keep_conn fastcgi_socket_keepalive grpc_socket_keepalive chunked_transfer_encoding zone",
        "connections to upstreams use HTTP/1.1 or HTTP/2 and stay open",
    ),
    (
        "proxy_send_timeout fastcgi_send_timeout grpc_send_timeout keepalive_timeout send_timeout client_body_timeout client_header_timeout lingering_close \
         lingering_time lingering_timeout send_lowat",
        "Rudy limits slow clients and upstreams by rate and progress: see docs/configuration.md#limits-and-timeouts",
    ),
    (
        "ssl_prefer_server_ciphers ssl_dhparam ssl_ciphers ssl_ecdh_curve ssl_conf_command ssl_buffer_size ssl_session_cache \
         ssl_session_timeout ssl_stapling ssl_stapling_verify ssl_stapling_file ssl_trusted_certificate ssl_verify_depth \
         ssl_dyn_rec_enable ssl_early_data",
        "Rudy offers only secure cipher suites and groups, and resumes sessions with tickets: see docs/tls.md#cipher-suites-and-curves",
    ),
    (
        "http2 http3 http3_hq quic_gso quic_retry quic_bpf http2_max_concurrent_streams spdy_headers_comp \
      http2_push_preload http2_idle_timeout",
        "HTTP/2 and HTTP/3 are on by default, with limits of their own",
    ),
    ("resolver resolver_timeout", "names are resolved again every 30 s by the system"),
    ("server_tokens", "Rudy sends no version"),
    (
        "gzip_vary gzip_proxied gzip_disable gzip_http_version gzip_static gunzip brotli_static brotli_window brotli_buffers \
         gzip_window gzip_hash gzip_no_buffer",
        "Rudy sends `Vary`, and precompressed files, by itself",
    ),
    (
        "log_not_found log_subrequest error_log rewrite_log",
        "errors go to standard error, or to `error_log` of rudy.toml",
    ),
    ("log_format", "its lines are used with the access log that names it, or in the combined format"),
    (
        "etag if_modified_since max_ranges proxy_force_ranges msie_padding msie_refresh keepalive_disable merge_slashes port_in_redirect \
      absolute_redirect server_name_in_redirect recursive_error_pages variables",
        "Rudy follows RFC 9110: paths are normalized, validators and ranges are on, and redirects are relative to the request",
    ),
    (
        "underscores_in_headers ignore_invalid_headers",
        "proxies get such fields, and variables of FastCGI are not ambiguous",
    ),
    ("real_ip_recursive", "Rudy skips all `trusted_proxies` in a list of addresses"),
    ("charset_types source_charset override_charset", "charsets are for text"),
    ("disable_symlinks", "Rudy follows no link that leads out of the folder"),
    (
        "fastcgi_index fastcgi_split_path_info fastcgi_param fastcgi_pass_header",
        "the variables of CGI are set without it",
    ),
    (
        "proxy_cache_path fastcgi_cache_path proxy_cache_lock proxy_cache_lock_age proxy_cache_lock_timeout \
         proxy_cache_revalidate proxy_cache_background_update proxy_cache_methods proxy_cache_convert_head \
         proxy_cache_key fastcgi_cache_key fastcgi_cache_lock fastcgi_cache_methods fastcgi_cache_revalidate \
         fastcgi_cache_background_update proxy_cache_min_uses slice scgi_cache_path uwsgi_cache_path \
         proxy_cache_bypass proxy_no_cache fastcgi_cache_bypass fastcgi_no_cache",
        "Rudy has one store for all caches, whose key is the URL, and whose requests wait for each other: see docs/cache.md",
    ),
    (
        "proxy_next_upstream_tries proxy_next_upstream_timeout fastcgi_next_upstream grpc_next_upstream",
        "a request goes to each other upstream once",
    ),
    (
        "proxy_pass_header proxy_pass_request_headers proxy_cookie_flags proxy_ignore_client_abort fastcgi_ignore_client_abort \
      auth_delay proxy_headers proxy_ssl_server_name proxy_ssl_name proxy_ssl_protocols proxy_ssl_ciphers proxy_store_access",
        "Rudy passes fields on, names https upstreams by SNI, and cancels requests whose clients are gone",
    ),
    (
        "uwsgi_read_timeout uwsgi_param uwsgi_buffers uwsgi_buffer_size uwsgi_send_timeout scgi_param uwsgi_max_temp_file_size",
        "it belongs to `uwsgi_pass` or `scgi_pass`, which have no translation",
    ),
    ("break", "a rewrite leads to the route of the new path"),
    ("default_type", "files of unknown types have no media type"),
    ("set", "its value is written where it is used"),
    ("memcached_read_timeout", "it belongs to `memcached_pass`"),
];

/// Directives without a translation, with what to do; those that protect something are marked.
const OPEN: &[(&str, bool, &str)] = &[
    (
        "valid_referers",
        true,
        "write a route with `when = { not = { headers = { Referer = \"https://example.org/*\" } } }` and `respond = 403`",
    ),
    (
        "limit_req limit_req_zone limit_conn limit_conn_zone",
        true,
        "write `rate_limit` or `concurrent_requests` (docs/limits.md)",
    ),
    (
        "ssl_verify_client ssl_client_certificate ssl_crl",
        true,
        "write `client_certificates` in `tls` (docs/tls.md#client-certificates)",
    ),
    (
        "secure_link secure_link_md5 secure_link_secret auth_jwt auth_jwt_key_file access_by_lua_block access_by_lua_file \
      modsecurity modsecurity_rules_file modsecurity_rules",
        true,
        "let an application decide, with `forward_auth`",
    ),
    (
        "auth_request auth_basic auth_basic_user_file allow deny satisfy internal limit_except",
        true,
        "write it by hand (docs/access.md)",
    ),
    (
        "sub_filter sub_filter_once sub_filter_types sub_filter_last_modified ssi ssi_types addition_types add_before_body \
      add_after_body image_filter xslt_stylesheet",
        false,
        "Rudy does not change the content of responses: let the application do it",
    ),
    ("mirror mirror_request_body", false, "Rudy does not send copies of requests to a second upstream"),
    (
        "uwsgi_pass scgi_pass",
        false,
        "write `uwsgi` or `scgi` with the address: applications get the path of the route as `SCRIPT_NAME`, and not the whole as \
      `PATH_INFO`",
    ),
    (
        "memcached_pass",
        false,
        "Rudy does not speak this protocol: let an application that listens for HTTP read memcached, and write `proxy`",
    ),
    (
        "dav_methods dav_access dav_ext_methods create_full_put_path min_delete_depth flv mp4 hls random_index empty_gif perl \
      perl_set perl_modules js_import js_content js_set js_path",
        false,
        "let an application do it, behind `proxy`",
    ),
    ("stream mail", false, "Rudy is an HTTP server: keep another program for other protocols"),
    (
        "geo geoip_country geoip_city geoip2 split_clients userid userid_name userid_domain userid_path userid_expires",
        false,
        "let the application do it, or write routes with `when`",
    ),
    (
        "proxy_redirect",
        false,
        "write `rewrite_location = true` in `proxy`, or let the application use Host and X-Forwarded-Proto",
    ),
    (
        "proxy_cookie_path proxy_cookie_domain",
        false,
        "write `rewrite_cookies = true` in `proxy` if the path of the route is removed",
    ),
    (
        "real_ip_header set_real_ip_from",
        false,
        "write `trusted_proxies` and `client_address` at the top, for all sites",
    ),
    ("if", false, "write a route with `when` (docs/configuration.md#conditions)"),
    ("rewrite", false, "write a route with a `regex:` path and `rewrite` or `redirect`"),
    ("map", false, "write a map (docs/headers-and-errors.md#maps), or routes with `when`"),
    ("error_page", false, "write `error_pages`"),
];

/// Directives that are translated where they apply.
const TRANSLATED: &str = "proxy_set_header grpc_set_header proxy_read_timeout proxy_connect_timeout proxy_redirect \
    proxy_next_upstream proxy_request_buffering proxy_max_temp_file_size proxy_hide_header proxy_cache proxy_cache_valid \
    proxy_cache_use_stale proxy_ignore_headers proxy_intercept_errors proxy_ssl_verify proxy_ssl_trusted_certificate \
    proxy_ssl_certificate proxy_ssl_certificate_key proxy_cookie_path proxy_cookie_domain fastcgi_read_timeout \
    fastcgi_connect_timeout fastcgi_hide_header fastcgi_intercept_errors fastcgi_request_buffering fastcgi_cache \
    fastcgi_cache_valid fastcgi_cache_use_stale fastcgi_ignore_headers grpc_read_timeout grpc_connect_timeout gzip gzip_types \
    gzip_comp_level gzip_min_length brotli brotli_types brotli_comp_level brotli_min_length add_header more_set_headers expires \
    root alias index autoindex autoindex_exact_size autoindex_localtime autoindex_format try_files error_page types charset \
    access_log location server upstream least_conn ip_hash hash random limit_rate limit_rate_after limit_req_status \
    limit_conn_status limit_req_dry_run limit_req_log_level limit_conn_log_level ssl ssl_certificate ssl_certificate_key \
    ssl_protocols ssl_session_tickets \
    client_max_body_size auth_request_set set_escape_uri proxy_pass_request_body fastcgi_pass proxy_pass grpc_pass return";

/// Whether a directive is translated where it applies.
pub(super) fn is_translated(name: &str) -> bool {
    TRANSLATED.split(' ').any(|known| known == name)
}

/// What a directive without a verdict is.
pub(super) enum Known {
    Different(&'static str),
    Open { protects: bool, advice: &'static str },
}

/// Looks up a directive that no translation has taken.
pub(super) fn known(name: &str) -> Known {
    let has = |names: &str| names.split(' ').any(|known| known == name);
    if let Some((_, reason)) = DIFFERENT.iter().find(|(names, _)| has(names)) {
        return Known::Different(reason);
    }
    match OPEN.iter().find(|(names, ..)| has(names)) {
        Some((_, protects, advice)) => Known::Open { protects: *protects, advice },
        None if name.ends_with("_by_lua_block")
            || name.ends_with("_by_lua_file")
            || name.starts_with("lua_") =>
        {
            Known::Open {
                protects: name.starts_with("access_"),
                advice: "Rudy runs no scripts: let an application do it",
            }
        }
        None => Known::Open {
            protects: false,
            advice: "Rudy has no equivalent that is known: see docs/from-nginx.md",
        },
    }
}
