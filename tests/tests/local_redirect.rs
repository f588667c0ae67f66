//! An app that names another path in `Location` and nothing else: the server answers as if it had been asked for that.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;

use rudy_tests::Server;

/// Record types of FastCGI 1.0, section 8.
const END_REQUEST: u8 = 3;
const STDIN: u8 = 5;
const STDOUT: u8 = 6;
const GET_VALUES: u8 = 9;

/// An app that answers as `answer` says to a method and a script, a request for each connection. It is written byte by byte,
/// because apps in other languages write a `Status` of their own and never say this.
fn app(answer: fn(&str, &str) -> String) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    let address = listener.local_addr().expect("it listens");
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || {
                let Some(said) = request(&mut stream) else { return };
                let text = answer(&param(&said, b"REQUEST_METHOD"), &param(&said, b"SCRIPT_NAME"));
                let length = u16::try_from(text.len()).expect("it is short").to_be_bytes();
                let mut records = vec![1, STDOUT, 0, 1, length[0], length[1], 0, 0];
                records.extend_from_slice(text.as_bytes());
                records.extend_from_slice(&[1, END_REQUEST, 0, 1, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
                stream.write_all(&records).expect("the server reads");
            });
        }
    });
    address
}

/// All contents of records until the end of the body; `None` for a question that is about no request.
fn request(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut said = Vec::new();
    loop {
        let mut head = [0; 8];
        stream.read_exact(&mut head).ok()?;
        let length = usize::from(u16::from_be_bytes([head[4], head[5]]));
        let mut content = vec![0; length + usize::from(head[6])];
        stream.read_exact(&mut content).ok()?;
        match head[1] {
            GET_VALUES => return None,
            STDIN if length == 0 => return Some(said),
            _ => said.extend_from_slice(&content[..length]),
        }
    }
}

/// The value of a variable: its length stands in the byte before its name.
fn param(said: &[u8], name: &[u8]) -> String {
    let at = said.windows(name.len()).position(|window| window == name).expect("the variable is there");
    let value = &said[at + name.len()..][..usize::from(said[at - 1])];
    String::from_utf8(value.to_vec()).expect("it is text")
}

fn answer(method: &str, script: &str) -> String {
    match script {
        "/form" => "Location: /app/thanks?id=1\n\n".to_owned(),
        "/app/thanks" => format!("Content-Type: text/plain\n\n{method} thanks"),
        "/to-file" => "Location: /file.txt\n\n".to_owned(),
        "/endless" => "Location: /endless\n\n".to_owned(),
        _ => "Location: /nobody\n\n".to_owned(),
    }
}

#[test]
fn another_path_of_the_site_answers_in_the_place_of_an_app() {
    let app = app(answer);
    let route = |path: &str| format!("[[site.route]]\npath = '{path}'\nfastcgi = {{ address = '{app}' }}\n");
    let routes = ["/form", "/app/thanks", "/to-file", "/endless", "/lost"].map(route).concat();
    let text = "[[site.route]]\npath = '/file.txt'\nrespond = { body = 'a file' }";
    let mut server = Server::config(&format!("listen = ['127.0.0.1:0']\n[[site]]\n{routes}{text}"));
    let mut connection = server.connect();
    connection.send(b"POST /form HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\na=b");
    let thanks = connection.response();
    assert_eq!((thanks.status, thanks.text()), (200, "GET thanks"));
    assert_eq!(server.get("/to-file").text(), "a file");
    assert_eq!(server.get("/lost").status, 404);
    assert_eq!(server.get("/endless").status, 502);
    server.wait_for_line("more than 10 local redirects, the last one to /endless");
}
