// SPDX-License-Identifier: Apache-2.0

// Command mochi serves MQTT with Mochi MQTT's defaults and what its configuration says.
package main

import (
	"bufio"
	"fmt"
	"log/slog"
	"net"
	"os"
	"runtime/debug"
	"strings"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/hooks/auth"
	"github.com/mochi-mqtt/server/v2/listeners"
)

const module = "github.com/mochi-mqtt/server/v2"

// The TCP option must be set before Mochi sees the connection, so the listener is ours.
type listener struct {
	net.Listener
	noDelay bool
}

func (own listener) Accept() (net.Conn, error) {
	connection, err := own.Listener.Accept()
	if tcp, ok := connection.(*net.TCPConn); ok {
		err = tcp.SetNoDelay(own.noDelay)
	}
	return connection, err
}

func main() {
	if err := serve(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "mochi:", err)
		os.Exit(1)
	}
}

func serve(words []string) error {
	if len(words) != 1 {
		return fmt.Errorf("usage: mochi CONFIGURATION | -version")
	}
	if words[0] == "-version" {
		fmt.Println("mochi", version())
		return nil
	}
	address, noDelay, err := read(words[0])
	if err != nil {
		return err
	}
	server := mqtt.New(&mqtt.Options{Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))})
	if err := server.AddHook(new(auth.AllowHook), nil); err != nil {
		return err
	}
	socket, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	if err := server.AddListener(listeners.NewNet("tcp", listener{socket, noDelay})); err != nil {
		return err
	}
	if err := server.Serve(); err != nil {
		return err
	}
	select {}
}

// read returns what a configuration file says: `listen ADDRESS:PORT`, and `tcp nodelay` or `tcp nagle`.
func read(name string) (address string, noDelay bool, err error) {
	file, err := os.Open(name)
	if err != nil {
		return "", false, err
	}
	defer file.Close()
	said := map[string]string{}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		word, value, _ := strings.Cut(strings.TrimSpace(lines.Text()), " ")
		said[word] = value
	}
	if said["listen"] == "" || said["tcp"] != "nodelay" && said["tcp"] != "nagle" {
		return "", false, fmt.Errorf("%s: must say `listen ADDRESS:PORT`, and `tcp nodelay` or `tcp nagle`", name)
	}
	return said["listen"], said["tcp"] == "nodelay", nil
}

func version() string {
	info, _ := debug.ReadBuildInfo()
	for _, dependency := range info.Deps {
		if dependency.Path == module {
			return dependency.Version
		}
	}
	return "unknown"
}
