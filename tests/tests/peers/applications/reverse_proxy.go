// A server of Go's net/http behind Go's httputil.ReverseProxy: an echo with its length as a trailer, events, the fields of the request,
// and a connection that changes its protocol and sends back its bytes.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strconv"
)

func echo(w http.ResponseWriter, r *http.Request) {
	// A handler of Go reads no more after it has begun to write.
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Trailer", "X-Length")
	w.Write(body)
	w.Header().Set("X-Length", strconv.Itoa(len(body)))
}

func events(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	for number := 1; number <= 3; number++ {
		fmt.Fprintf(w, "data: %d\n\n", number)
		w.(http.Flusher).Flush()
	}
}

func fields(w http.ResponseWriter, r *http.Request) {
	w.WriteHeader(http.StatusEarlyHints)
	json.NewEncoder(w).Encode(r.Header)
}

func upgrade(w http.ResponseWriter, _ *http.Request) {
	connection, buffer, err := w.(http.Hijacker).Hijack()
	if err != nil {
		log.Fatal(err)
	}
	defer connection.Close()
	io.WriteString(connection, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n")
	io.Copy(connection, buffer)
}

func main() {
	mux := http.NewServeMux()
	mux.HandleFunc("/echo", echo)
	mux.HandleFunc("/events", events)
	mux.HandleFunc("/fields", fields)
	mux.HandleFunc("/ws", upgrade)
	backend := httptest.NewServer(mux)
	target, err := url.Parse(backend.URL)
	if err != nil {
		log.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Header["X-Forwarded-For"] = r.In.Header["X-Forwarded-For"]
	}}
	log.Fatal(http.ListenAndServe(os.Args[1], proxy))
}
