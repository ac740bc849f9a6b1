package sql

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/lib/pq"
)

// isPostgres says whether an address is one of PostgreSQL's.
func isPostgres(address string) bool {
	return strings.HasPrefix(address, "postgres://") || strings.HasPrefix(address, "postgresql://")
}

// parsePostgres reads a postgres:// address of one or more hosts.
func parsePostgres(address string) (location, error) {
	u, hosts, err := splitHosts(address)
	if err != nil {
		return location{}, err
	}
	q := u.Query()
	if err := refuseSettings(q); err != nil {
		return location{}, err
	}
	// One round trip a statement and no named server-side statement, so that a
	// pooler in transaction mode cannot mix up two clients.
	q.Set("binary_parameters", "yes")
	for name, value := range map[string]string{"connect_timeout": "10", "application_name": "rollcall"} {
		if !q.Has(name) {
			q.Set(name, value)
		}
	}
	if len(hosts) > 0 { // the driver knows neither several nor one in brackets in a URL
		names, ports := make([]string, len(hosts)), make([]string, len(hosts))
		for i, h := range hosts {
			names[i], ports[i] = h.Hostname(), h.Port()
		}
		q.Set("host", strings.Join(names, ","))
		if slices.ContainsFunc(ports, func(p string) bool { return p != "" }) {
			ports[0] = cmp.Or(ports[0], "5432")
			q.Set("port", strings.Join(ports, ","))
		}
	}
	u.RawQuery = q.Encode()
	loc := location{dialect: postgres}
	path := u.Path
	if path == "" { // without it String leaves out //, and the driver would go to this machine
		u.Path = "/"
	}
	if loc.config, err = pq.NewConfig(u.String()); err != nil {
		return location{}, fmt.Errorf("database: the postgres:// address is not accepted: %w", err)
	}
	loc.name = fmt.Sprintf("postgres://%s%s", hostList(loc.config), path)
	return loc, targetSession(&loc.config)
}

// splitHosts parses the address and takes its hosts out. Nothing of one that
// cannot be parsed is shown, since a password may stand anywhere in it.
func splitHosts(address string) (rest *url.URL, hosts []*url.URL, err error) {
	refused := errors.New("database: the postgres:// address cannot be parsed; write special characters of user, password and settings as %XX, such as %40 for @")
	scheme, text, _ := strings.Cut(address, "://")
	end := strings.IndexAny(text, "/?#")
	if end < 0 {
		end = len(text)
	}
	at := strings.LastIndex(text[:end], "@") + 1
	rest, err = url.Parse(scheme + "://" + text[:at] + text[end:])
	// A password with a /, ? or # in it ends the host early, and its rest stands behind.
	if err != nil || !isText(rest) || strings.Contains(text[end:], "@") {
		return nil, nil, refused
	}
	if at == end {
		return rest, nil, nil
	}
	for h := range strings.SplitSeq(text[at:end], ",") {
		one, err := url.Parse("postgres://" + h)
		if err != nil || one.Hostname() == "" || !isText(one) {
			return nil, nil, refused
		}
		hosts = append(hosts, one)
	}
	return rest, hosts, nil
}

// isText says whether the parts of an address are UTF-8. The driver replaces
// what is not, and would go to another host, or with another password.
func isText(u *url.URL) bool {
	password, _ := u.User.Password()
	return utf8.ValidString(u.Host + u.User.Username() + password + u.Path)
}

// hostList is where the driver will go, in this order, for people.
func hostList(cfg pq.Config) string {
	var list []string
	for _, h := range append([]pq.ConfigMultihost{{Host: cfg.Host, Hostaddr: cfg.Hostaddr, Port: cfg.Port}}, cfg.Multi...) {
		host := h.Host
		if h.Hostaddr.IsValid() {
			host = h.Hostaddr.String()
		}
		if !filepath.IsAbs(host) { // the folder of a UNIX socket
			host = net.JoinHostPort(host, strconv.Itoa(int(h.Port)))
		}
		list = append(list, host)
	}
	return strings.Join(list, ",")
}

// settingName is a name that the driver takes as it is, and never as several.
var settingName = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)

// refuseSettings refuses what would be overridden in silence, and what is no
// setting: the driver's error would show it, and it may be half a password.
func refuseSettings(q url.Values) error {
	for name := range q {
		if !settingName.MatchString(name) {
			return errors.New("database: the address has a setting whose name is no word; write special characters of user and password as %XX")
		}
	}
	if v := q.Get("binary_parameters"); q.Has("binary_parameters") && !slices.Contains([]string{"yes", "on", "true", "1"}, v) {
		return fmt.Errorf("database: binary_parameters=%s in the address: rollcall always uses binary_parameters=yes, without which a pooler in transaction mode gives one client another client's answers; take it out", v)
	}
	return nil
}

// targetSession makes an address of several hosts lead to the one that writes.
func targetSession(cfg *pq.Config) error {
	several := len(cfg.Multi) > 0
	if cfg.TargetSessionAttrs == "" && several {
		cfg.TargetSessionAttrs = pq.TargetSessionAttrsReadWrite
	}
	switch v := cfg.TargetSessionAttrs; {
	case v == pq.TargetSessionAttrsReadWrite, v == pq.TargetSessionAttrsPrimary:
		return nil
	case (v == "" || v == pq.TargetSessionAttrsAny) && !several:
		return nil
	default:
		return fmt.Errorf("database: target_session_attrs=%s in the address may lead to a server that does not write; use read-write, which is the default with several hosts", v)
	}
}

// startSettings are the names of the server settings that the address, or the
// environment, wants to have set at the start of each connection.
func startSettings(cfg pq.Config) []string {
	var names []string
	for name := range cfg.Runtime {
		names = append(names, strings.ToLower(name))
	}
	for _, word := range strings.Fields(cfg.Options) {
		word = strings.TrimPrefix(strings.TrimPrefix(word, "-c"), "--")
		if name, _, ok := strings.Cut(word, "="); ok {
			names = append(names, strings.ReplaceAll(strings.ToLower(name), "-", "_"))
		}
	}
	slices.Sort(names)
	return names
}

// connector opens sessions.
type connector struct {
	*pq.Connector
	settings []string
	notice   func(kind string)
	cutAfter time.Duration
}

// connectorFor is a connector whose dialer notices a dead server.
func connectorFor(cfg pq.Config, opts Options) (*connector, error) {
	inner, err := pq.NewConnectorConfig(cfg)
	if err != nil {
		return nil, err
	}
	inner.Dialer(newDialer())
	c := &connector{Connector: inner, settings: startSettings(cfg), notice: opts.Notice, cutAfter: opts.CutAfter}
	if c.notice == nil {
		c.notice = func(string) {}
	}
	return c, nil
}

type socketKey struct{}

// Connect implements driver.Connector.
func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	var socket net.Conn
	inner, err := c.Connector.Connect(context.WithValue(ctx, socketKey{}, &socket))
	if err != nil {
		return nil, c.explain(err)
	}
	s := &session{driverConn: inner.(driverConn), socket: socket, connector: c}
	pq.SetNoticeHandler(inner, s.heard)
	return s, nil
}

// explain says what a pooler means that refuses a setting of the address.
func (c *connector) explain(err error) error {
	var pe *pq.Error
	if !errors.As(err, &pe) || pe.Code != "08P01" || len(c.settings) == 0 {
		return err
	}
	return fmt.Errorf("%w: it refuses settings in the address (%s): give them to the role instead, with ALTER ROLE … SET: %w", ErrPooler, strings.Join(c.settings, ", "), err)
}

// dialer connects so that a dead server, or a dead network, ends each call
// within about a minute: the driver itself waits for an answer for ever.
type dialer struct{ net net.Dialer }

// userTimeout is how long sent data may stay unacknowledged.
const userTimeout = 30 * time.Second

func newDialer() dialer {
	return dialer{net.Dialer{
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 15 * time.Second, Count: 3},
		Control:         setUserTimeout,
	}}
}

// Dial implements pq.Dialer.
func (d dialer) Dial(network, address string) (net.Conn, error) {
	return d.DialContext(context.Background(), network, address)
}

// DialTimeout implements pq.Dialer.
func (d dialer) DialTimeout(network, address string, limit time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	return d.DialContext(ctx, network, address)
}

// DialContext implements pq.DialerContext. The session that is being opened
// learns of its socket; a request to cancel has one of its own.
func (d dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := d.net.DialContext(ctx, network, address)
	if socket, ok := ctx.Value(socketKey{}).(*net.Conn); ok && err == nil {
		*socket = conn
	}
	return conn, err
}
