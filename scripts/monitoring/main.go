// Checks a dashboard of Grafana against Grafana's own schema: unknown fields and missing ones are
// errors.
//
//	go run . DASHBOARD.json
package main

import (
	"fmt"
	"os"

	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

func main() {
	plugins.RegisterDefaultPlugins()
	text, err := os.ReadFile(os.Args[1])
	if err == nil {
		board := dashboard.Dashboard{}
		// The package returns an empty list of errors for none.
		for _, found := range []error{board.UnmarshalJSONStrict(text), board.Validate()} {
			if found != nil && found.Error() != "" {
				err = found
			}
		}
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", os.Args[1], err)
		os.Exit(1)
	}
}
