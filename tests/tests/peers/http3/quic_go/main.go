// A server and a client of HTTP/3 with quic-go.
package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"

	"github.com/quic-go/quic-go/http3"
)

func main() {
	if os.Args[1] == "serve" {
		serve(os.Args[2], os.Args[3], os.Args[4], os.Args[5])
	} else {
		fetch(os.Args[2], os.Args[3])
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// serve serves the files of a folder, and listens for TCP at the same port when it is ready.
func serve(address, certificate, key, folder string) {
	pair, err := tls.LoadX509KeyPair(certificate, key)
	check(err)
	config := http3.ConfigureTLSConfig(&tls.Config{Certificates: []tls.Certificate{pair}})
	server := http3.Server{TLSConfig: config, Handler: http.FileServer(http.Dir(folder))}
	socket, err := net.ListenPacket("udp", address)
	check(err)
	listener, err := net.Listen("tcp", address)
	check(err)
	go func() {
		for {
			connection, err := listener.Accept()
			check(err)
			connection.Close()
		}
	}()
	panic(server.Serve(socket))
}

// fetch sends requests to a server with `/hello` (5 bytes), `/large` (300,000 bytes) and `/up` (the number of bytes of the body).
func fetch(url, authority string) {
	pem, err := os.ReadFile(authority)
	check(err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	transport := &http3.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	defer transport.Close()
	client := &http.Client{Transport: transport}
	request := func(method, path, body string, expected int, content string) {
		request, err := http.NewRequest(method, url+path, strings.NewReader(body))
		check(err)
		response, err := client.Do(request)
		check(err)
		defer response.Body.Close()
		received, err := io.ReadAll(response.Body)
		check(err)
		if response.StatusCode != expected || response.ProtoMajor != 3 || content != "" && string(received) != content {
			panic(fmt.Sprintf("%s %s: %s %s", method, path, response.Proto, response.Status))
		}
	}
	large := string(bytes.Repeat([]byte("x"), 300_000))
	request("GET", "/hello", "", 200, "hello")
	request("GET", "/large", "", 200, large)
	request("HEAD", "/large", "", 200, "")
	request("GET", "/missing", "", 404, "")
	request("POST", "/up", strings.Repeat("y", 1_000_000), 200, "1000000")
	var group sync.WaitGroup
	for range 300 {
		group.Go(func() { request("GET", "/hello", "", 200, "hello") })
	}
	for range 30 {
		group.Go(func() { request("POST", "/up", strings.Repeat("z", 50_000), 200, "50000") })
	}
	group.Wait()
}
