//! The manifests and the Helm chart for Kubernetes: against its schemas, and the pods as its nodes start them, without Kubernetes.

use rudy_tests::prelude::*;

use crate::containers::{Bundle, Container};
use crate::{VERSION, released};

/// Values that use every part of the chart.
const VALUES: &str = r#"
image: { tag: "9", pullPolicy: Always }
imagePullSecrets: [{ name: registry }]
sites:
  a.toml: |
    [[site]]
    hosts = "a.example"
    root = "/srv/www"
  b.toml: |
    [[site]]
    hosts = "example.org"
    route = [{ path = "/", respond = { body = "${NAME:-b}" } }]
volumes: { www: { persistentVolumeClaim: { claimName: site, readOnly: true } } }
extraVolumes: [{ name: certificates, secret: { secretName: example } }]
extraVolumeMounts: [{ name: certificates, mountPath: /etc/certificates, readOnly: true }]
env: [{ name: NAME, value: text }]
service: { type: LoadBalancer, httpsPort: 443, annotations: { a: b } }
ingress: { enabled: true, className: nginx, annotations: { a: b }, hosts: [example.org], tls: [{ secretName: example }] }
gateway: { enabled: true, parentRefs: [{ name: public }], hostnames: [example.org] }
autoscaling: { enabled: true }
podAnnotations: { a: b }
podLabels: { a: b }
nodeSelector: { kubernetes.io/arch: amd64 }
tolerations: [{ key: a, operator: Exists }]
affinity: { podAntiAffinity: { requiredDuringSchedulingIgnoredDuringExecution: [{ topologyKey: a }] } }
"#;

/// Prints the documents of YAML as a JSON array.
const TO_JSON: &str = "import json, sys, yaml; json.dump(list(yaml.safe_load_all(sys.stdin)), sys.stdout)";

/// Validates the routes in YAML with the schema in a file.
const ROUTES: &str = "
import jsonschema, sys, yaml
versions = yaml.safe_load(open(sys.argv[1]))['spec']['versions']
schema = next(v['schema']['openAPIV3Schema'] for v in versions if v['name'] == 'v1')
routes = [d for d in yaml.safe_load_all(sys.stdin) if d['kind'] == 'HTTPRoute']
assert routes
for route in routes: jsonschema.validate(route, schema)
";

/// Helm, and Python programs that know YAML and the schemas.
struct Tools {
    helm: PathBuf,
    python: PathBuf,
    validate: PathBuf,
}

impl Tools {
    /// `None` if the test is skipped.
    fn find() -> Option<Self> {
        let of_kubernetes = rudy_tests::kubernetes_program;
        let (python, validate) = (of_kubernetes("python")?, of_kubernetes("kubernetes-validate")?);
        Some(Self { helm: go_program("helm")?, python, validate })
    }

    /// Returns the manifests of a chart.
    fn render(&self, chart: &Path, values: &str) -> Output {
        let values = Folder::with(&[("values.yaml", values)]);
        let mut helm = Command::new(&self.helm);
        helm.args(["template", "web"]).arg(chart).arg("--values").arg(values.join("values.yaml"));
        Output::of(&mut helm)
    }

    fn validate(&self, manifests: &str) {
        let folder = Folder::with(&[("manifests.yaml", manifests)]);
        let mut validate = Command::new(&self.validate);
        Output::of(validate.arg("--strict").arg(folder.join("manifests.yaml"))).succeeded();
    }

    /// Runs a Python script with manifests on stdin.
    fn python(&self, script: &str, arguments: &[&OsStr], manifests: &str) -> Output {
        let folder = Folder::with(&[("manifests.yaml", manifests)]);
        let stdin = File::open(folder.join("manifests.yaml")).expect("the file exists");
        Output::of(Command::new(&self.python).args(["-c", script]).args(arguments).stdin(stdin))
    }

    fn documents(&self, manifests: &str) -> Vec<Value> {
        serde_json::from_str(&self.python(TO_JSON, &[], manifests).succeeded()).expect("an array")
    }
}

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

fn manifests(name: &str) -> String {
    repository("docs/kubernetes").read(name)
}

#[test]
fn manifests_and_charts_match_the_schemas_of_kubernetes() {
    let Some(tools) = Tools::find() else { return };
    let chart = repository("packaging/helm/rudy");
    Output::of(Command::new(&tools.helm).args(["lint", "--strict"]).arg(&chart)).succeeded();
    let all = tools.render(&chart, VALUES).succeeded();
    for manifests in [manifests("bench.yaml"), manifests("rudy.yaml"), tools.render(&chart, "").succeeded()] {
        tools.validate(&manifests);
    }
    tools.validate(&all);
    let Some(schema) = rudy_tests::kubernetes_program("httproute.yaml") else { return };
    tools.python(ROUTES, &[schema.as_os_str()], &all).succeeded();
}

#[test]
fn the_chart_and_the_manifests_have_the_version_of_the_program() {
    let chart = repository("packaging/helm/rudy").read("Chart.yaml");
    assert_contains!(chart, &format!("\nversion: {VERSION}\n"), &format!("\nappVersion: {VERSION}\n"));
    assert_contains!(manifests("rudy.yaml"), &format!("/rudy:{VERSION} "));
}

#[test]
fn values_that_would_have_no_effect_are_errors() {
    let Some(tools) = Tools::find() else { return };
    let cases = [
        ("replica: 3", "'replica' not allowed"),
        ("ingress: { enabled: true }", "/ingress/hosts"),
        ("gateway: { enabled: true }", "/gateway/parentRefs"),
        ("sites: { a.conf: '' }", "'a.conf' does not match"),
        ("service: { port: 0 }", "/service/port"),
    ];
    for (values, part) in cases {
        let error = tools.render(&repository("packaging/helm/rudy"), values).failed_with(1);
        assert!(error.contains(part), "{values}: {error}");
    }
}

#[test]
fn pods_are_ready_and_serve_their_sites() {
    let Some(chart) = released(&format!("rudy-{VERSION}-chart.tgz")) else { return };
    let Some(tools) = Tools::find() else { return };
    let default = tools.render(&chart, "").succeeded();
    let all = tools.render(&chart, VALUES).succeeded();
    for (manifests, page) in
        [(manifests("rudy.yaml"), "<p>Hello"), (default, "/srv/www/index"), (all, "text")]
    {
        let Some(container) = start(&tools.documents(&manifests)) else { return };
        let (index, metrics) = (container.get(8080, "/"), container.get(8081, "/metrics"));
        assert_contains!(index.text(), page);
        assert_contains!(metrics.text(), "rudy_connections");
        assert_eq!(container.get(8080, "/healthz").status, 404, "the public address does not have it");
        container.run(&["/usr/bin/rudy", "status"]).succeeded();
        container.stop();
    }
}

/// Starts the container of the deployment in these manifests, as the kubelet does, and probes it. `None` if the test is skipped.
fn start(manifests: &[Value]) -> Option<Container> {
    let of_kind = |kind: &'static str| manifests.iter().filter(move |manifest| manifest["kind"] == kind);
    let pod = &of_kind("Deployment").next().expect("there is a deployment")["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    let mut bundle = Bundle::unpack(&released(&format!("rudy-{VERSION}-image-x86_64.tar"))?, "amd64")?;
    bundle.restrict();
    for mount in array(&container["volumeMounts"]) {
        let volumes = array(&pod["volumes"]);
        let volume =
            volumes.iter().find(|volume| volume["name"] == mount["name"]).expect("there is a volume");
        let path = mount["mountPath"].as_str().expect("it has a path");
        if let Some(name) = volume["configMap"]["name"].as_str() {
            let mut maps = of_kind("ConfigMap");
            let map = maps.find(|map| map["metadata"]["name"] == name).expect("there is a map");
            let folder = bundle.folder().join(name);
            write_map(&folder, &map["data"], &volume["configMap"]["items"]);
            bundle.mount_folder(path, &folder);
        } else {
            // A claim and a secret have no effect on these sites.
            bundle.mount_empty(path);
        }
    }
    for variable in container["env"].as_array().into_iter().flatten() {
        let text = |name: &str| variable[name].as_str().expect("a text");
        bundle.set_variable(text("name"), text("value"));
    }
    let started = bundle.start("crun")?;
    for probe in ["readinessProbe", "livenessProbe"] {
        let request = &container[probe]["httpGet"];
        let ports = array(&container["ports"]);
        let port = ports.iter().find(|port| port["name"] == request["port"]).expect("the port has a name");
        let port = port["containerPort"].as_u64().and_then(|port| port.try_into().ok()).expect("a port");
        let response = started.get(port, request["path"].as_str().expect("it has a path"));
        assert_eq!(response.status_and_text(), (200, "ok\n"), "{probe}");
    }
    Some(started)
}

fn array(value: &Value) -> &[Value] {
    value.as_array().expect("an array")
}

/// Writes a `ConfigMap` as the kubelet does: the names are links to a link, which it replaces when the map changes.
fn write_map(folder: &Path, data: &Value, items: &Value) {
    let data = data.as_object().expect("it has data");
    let all = data.keys().map(|key| (key.as_str(), key.as_str()));
    let chosen = items.as_array().map(|items| items.iter());
    let chosen = chosen.map(|items| {
        items.map(|item| (item["key"].as_str().expect("a key"), item["path"].as_str().expect("a path")))
    });
    let files: Vec<_> = chosen.map_or_else(|| all.collect(), Iterator::collect);
    for (key, path) in files {
        folder.write(&format!("..version/{path}"), data[key].as_str().expect("a text"));
        let first = path.split('/').next().expect("a part is never missing");
        if !folder.join(first).is_symlink() {
            symlink(format!("..data/{first}"), folder.join(first)).expect("the folder can be written");
        }
    }
    symlink("..version", folder.join("..data")).expect("the folder can be written");
}
