//! Prometheus and its linter read the metrics.

use rudy_tests::prelude::*;

const CONFIG: &str = "listen = ['127.0.0.1:0']
[[site]]
hosts = ['localhost', '127.0.0.1']
route = [{ path = '/metrics', metrics = {} }, { path = '/*', respond = 'ok' }]
";

#[test]
fn the_linter_of_prometheus_has_nothing_to_say() {
    let Some(promtool) = program("promtool") else { return };
    let server = Server::config(CONFIG);
    assert_eq!(server.get("/").status, 200);
    let metrics = server.get("/metrics");
    assert_eq!(metrics.field("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    let mut linter = Command::new(promtool);
    linter.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut linter = linter.spawn().expect("promtool starts");
    linter.stdin.take().expect("a pipe").write_all(metrics.text().as_bytes()).expect("promtool reads");
    let output = linter.wait_with_output().expect("promtool ends");
    let output_text = [output.stdout, output.stderr].concat();
    assert!(output.status.success() && output_text.is_empty(), "{}", String::from_utf8_lossy(&output_text));
}

#[test]
fn prometheus_scrapes_the_metrics() {
    let (Some(prometheus), Some(curl)) = (program("prometheus"), Curl::find()) else { return };
    let server = Server::config(CONFIG);
    let folder = Folder::new();
    let (file, port) = (folder.join("prometheus.yml"), free_port());
    let config = format!(
        "scrape_configs:\n  - job_name: rudy\n    scrape_interval: 1s\n    static_configs:\n      - targets: ['{}']\n",
        server.address()
    );
    fs::write(&file, config).expect("a temp folder can be written");
    let mut command = Command::new(prometheus);
    command.arg(format!("--config.file={}", file.display()));
    command.arg(format!("--storage.tsdb.path={}", folder.join("data").display()));
    command.arg(format!("--web.listen-address=127.0.0.1:{port}"));
    let _prometheus =
        Running::from(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts"));
    for query in
        ["up{job=\"rudy\"}", "rudy_http_requests_total{site=\"localhost\",route=\"/metrics\",status=\"2xx\"}"]
    {
        eventually("Prometheus has the value", || {
            let url = format!("http://127.0.0.1:{port}/api/v1/query");
            let output =
                curl.command().args(["-sG", &url, "--data-urlencode"]).arg(format!("query={query}")).output();
            let text = String::from_utf8(output.ok()?.stdout).ok()?;
            let value = serde_json::from_str::<Value>(&text).ok()?;
            let value = value["data"]["result"][0]["value"][1].as_str()?.parse::<f64>().ok()?;
            (value >= 1.0).then_some(())
        });
    }
}
