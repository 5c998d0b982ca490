// A receiver of OTLP that reads bodies by the decoders of the OpenTelemetry Collector, and keeps the texts of lines.
package main

import (
	"bufio"
	"compress/gzip"
	"io"
	"log"
	"net/http"
	"os"

	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"go.opentelemetry.io/collector/pdata/pmetric/pmetricotlp"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
)

func main() {
	file, err := os.OpenFile(os.Args[2], os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		log.Fatal(err)
	}
	read := func(r *http.Request) ([]byte, error) {
		if r.Header.Get("Content-Encoding") != "gzip" {
			return io.ReadAll(r.Body)
		}
		body, err := gzip.NewReader(r.Body)
		if err != nil {
			return nil, err
		}
		return io.ReadAll(body)
	}
	serve := func(path string, take func([]byte) error) {
		http.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			body, err := read(r)
			if err == nil {
				err = take(body)
			}
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, "{}")
		})
	}
	serve("/v1/logs", func(body []byte) error {
		request := plogotlp.NewExportRequest()
		if err := request.UnmarshalJSON(body); err != nil {
			return err
		}
		out := bufio.NewWriter(file)
		resources := request.Logs().ResourceLogs()
		for i := 0; i < resources.Len(); i++ {
			scopes := resources.At(i).ScopeLogs()
			for j := 0; j < scopes.Len(); j++ {
				records := scopes.At(j).LogRecords()
				for k := 0; k < records.Len(); k++ {
					out.WriteString(records.At(k).Body().Str() + "\n")
				}
			}
		}
		return out.Flush()
	})
	serve("/v1/metrics", func(body []byte) error { return pmetricotlp.NewExportRequest().UnmarshalJSON(body) })
	serve("/v1/traces", func(body []byte) error { return ptraceotlp.NewExportRequest().UnmarshalJSON(body) })
	log.Fatal(http.ListenAndServe(os.Args[1], nil))
}
