// The test app in Go.
package main

import (
	"crypto/sha256"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/fcgi"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

func main() {
	listener, err := net.Listen("unix", os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(fcgi.Serve(listener, http.HandlerFunc(answer)))
}

func answer(w http.ResponseWriter, r *http.Request) {
	env := fcgi.ProcessEnv(r)
	query := r.URL.RawQuery
	w.Header().Set("Content-Type", "text/plain")
	// The package does not pass PATH_INFO and SCRIPT_NAME on, only the whole path.
	path := strings.TrimPrefix(r.URL.Path, "/app")
	what, line := strings.Split(path, "/")[1], "line"
	switch what {
	case "variables":
		for name, value := range env {
			fmt.Fprintf(w, "%s=%s\n", name, value)
		}
		// Variables that the package removes from the environment.
		for name, values := range r.Header {
			name = strings.ReplaceAll(strings.ToUpper(name), "-", "_")
			fmt.Fprintf(w, "HTTP_%s=%s\n", name, strings.Join(values, ", "))
		}
		fmt.Fprintf(w, "REQUEST_METHOD=%s\nQUERY_STRING=%s\nREQUEST_URI=%s\nSERVER_PROTOCOL=%s\n",
			r.Method, query, r.URL.RequestURI(), r.Proto)
		fmt.Fprintf(w, "PATH_INFO=%s\n", path)
		host, _, _ := net.SplitHostPort(r.RemoteAddr)
		fmt.Fprintf(w, "REMOTE_ADDR=%s\nHTTP_HOST=%s\n", host, r.Host)
	case "upload":
		hash := sha256.New()
		bytes, _ := io.Copy(hash, r.Body)
		fmt.Fprintf(w, "%d %x", bytes, hash.Sum(nil))
	case "lines", "named":
		if what == "named" {
			line = filepath.Base(query)
			r.Body.Read(make([]byte, 100))
		}
		for n := 1; n <= 3; n++ {
			fmt.Fprintf(w, "%s %d\n", line, n)
			w.(http.Flusher).Flush()
			for {
				if _, err := os.Stat(fmt.Sprintf("%s/%d", query, n)); err == nil {
					break
				}
				time.Sleep(time.Millisecond)
			}
		}
		os.WriteFile(query+"/over", nil, 0o644)
	case "status":
		status, _ := strconv.Atoi(query)
		w.WriteHeader(status)
	case "pid":
		fmt.Fprint(w, os.Getpid())
	}
}
