// Streams: the Go server of the field report of 2011, in current Go. A goroutine for each connection sleeps, writes a
// chunk and flushes it, without end.
package main

import (
	"flag"
	"fmt"
	"log"
	"net/http"
	"time"
)

func main() {
	address := flag.String("listen", "127.0.0.1:8080", "where to listen")
	flag.Parse()
	http.HandleFunc("/test/", stream)
	log.Fatal(http.ListenAndServe(*address, nil))
}

func stream(w http.ResponseWriter, r *http.Request) {
	flusher := w.(http.Flusher)
	fmt.Fprintf(w, "Goconntest welcomes you! Your Id: %s\n", r.URL.Path)
	flusher.Flush()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case <-r.Context().Done():
			return
		case <-tick.C:
			fmt.Fprintf(w, "Chunk %d for id %s\n", n, r.URL.Path)
			flusher.Flush()
		}
	}
}
