//! Tests local redirects: an app returns only a `Location` with a path, and the server responds with that path.

use rudy_tests::prelude::*;

/// Record types of FastCGI 1.0, section 8.
const END_REQUEST: u8 = 3;
const STDIN: u8 = 5;
const STDOUT: u8 = 6;
const GET_VALUES: u8 = 9;

/// Starts an app with one request per connection; `response` maps method and script to the response. The records are written by
/// hand, because FastCGI libraries add a `Status` and so cannot produce local redirects.
fn app(response: fn(&str, &str) -> String) -> SocketAddr {
    let (listener, address) = listen();
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || {
                let Some(params) = request(&mut stream) else { return };
                let text = response(&param(&params, b"REQUEST_METHOD"), &param(&params, b"SCRIPT_NAME"));
                let length = u16::try_from(text.len()).expect("the text is short").to_be_bytes();
                let mut records = vec![1, STDOUT, 0, 1, length[0], length[1], 0, 0];
                records.extend_from_slice(text.as_bytes());
                records.extend_from_slice(&[1, END_REQUEST, 0, 1, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
                stream.write_all(&records).expect("the server reads");
            });
        }
    });
    address
}

/// Returns the concatenated contents of all records of a request; `None` for a management record.
fn request(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut params = Vec::new();
    loop {
        let mut head = [0; 8];
        stream.read_exact(&mut head).ok()?;
        let length = usize::from(u16::from_be_bytes([head[4], head[5]]));
        let mut content = vec![0; length + usize::from(head[6])];
        stream.read_exact(&mut content).ok()?;
        match head[1] {
            GET_VALUES => return None,
            STDIN if length == 0 => return Some(params),
            _ => params.extend_from_slice(&content[..length]),
        }
    }
}

/// Returns the value of a variable, whose length is in the byte before its name.
fn param(params: &[u8], name: &[u8]) -> String {
    let at = params.windows(name.len()).position(|window| window == name).expect("the variable exists");
    let value = &params[at + name.len()..][..usize::from(params[at - 1])];
    String::from_utf8(value.to_vec()).expect("the bytes are UTF-8")
}

fn response(method: &str, script: &str) -> String {
    match script {
        "/form" => "Location: /app/thanks?id=1\n\n".to_owned(),
        "/app/thanks" => format!("Content-Type: text/plain\n\n{method} thanks"),
        "/to-file" => "Location: /file.txt\n\n".to_owned(),
        "/endless" => "Location: /endless\n\n".to_owned(),
        _ => "Location: /missing\n\n".to_owned(),
    }
}

#[test]
fn a_local_redirect_responds_with_another_path_of_the_site() {
    let app = app(response);
    let route = |path: &str| format!("[[site.route]]\npath = '{path}'\nfastcgi = {{ address = '{app}' }}\n");
    let routes = ["/form", "/app/thanks", "/to-file", "/endless", "/lost"].map(route).concat();
    let text = "[[site.route]]\npath = '/file.txt'\nrespond = { body = 'a file' }";
    let mut server = Server::config(&format!("listen = ['127.0.0.1:0']\n[[site]]\n{routes}{text}"));
    let thanks = server.send_body("POST", "/form", "a=b");
    assert_eq!((thanks.status, thanks.text()), (200, "GET thanks"));
    assert_eq!(server.get("/to-file").text(), "a file");
    assert_eq!(server.get("/lost").status, 404);
    assert_eq!(server.get("/endless").status, 502);
    server.wait_for_line("more than 10 local redirects, the last one to /endless");
}
