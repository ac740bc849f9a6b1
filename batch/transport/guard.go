package transport

import (
	"context"
	"fmt"
	"net/netip"
	"syscall"
)

// guard decides about each address after the name was resolved, on the very
// address that is about to be dialled: a name that resolves to something else
// the second time gains nothing.
type guard struct {
	loopbackOnly  bool
	permittedOnly bool
	permitted     []netip.Prefix
	record        func(network, addr string)
}

func (g guard) control(_ context.Context, network, addr string, _ syscall.RawConn) error {
	ap, err := netip.ParseAddrPort(addr)
	if err != nil {
		return fmt.Errorf("%w: not an IP address", ErrAddress)
	}
	if err := g.permit(ap.Addr()); err != nil {
		return err
	}
	if g.record != nil {
		g.record(network, addr)
	}
	return nil
}

// permit is nil when ip may be dialled.
func (g guard) permit(ip netip.Addr) error {
	switch {
	case ip.Is4In6():
		return fmt.Errorf("%w: IPv4-mapped", ErrAddress)
	case g.loopbackOnly && ip.IsLoopback():
		return nil
	case g.loopbackOnly:
		return fmt.Errorf("%w: only loopback is allowed here", ErrAddress)
	case ip.IsLoopback():
		return fmt.Errorf("%w: loopback", ErrAddress)
	case ip.IsUnspecified(), ip.IsMulticast(), ip.IsLinkLocalUnicast():
		return fmt.Errorf("%w: unspecified, multicast or link-local", ErrAddress)
	}
	for _, p := range g.permitted {
		if p.Contains(ip) {
			return nil
		}
	}
	if g.permittedOnly {
		return fmt.Errorf("%w: in no permitted range", ErrAddress)
	}
	if ip.IsPrivate() {
		return fmt.Errorf("%w: private", ErrAddress)
	}
	if ip.Is6() && !globalIPv6.Contains(ip) {
		return fmt.Errorf("%w: not global", ErrAddress)
	}
	for _, p := range reserved {
		if p.Contains(ip) {
			return fmt.Errorf("%w: reserved range", ErrAddress)
		}
	}
	return nil
}

// private is true for a range that lies within one of the private ones.
func private(p netip.Prefix) bool {
	for _, r := range privateRanges {
		if r.Contains(p.Addr()) && p.Bits() >= r.Bits() {
			return true
		}
	}
	return false
}

// privateRanges are those of netip.Addr.IsPrivate.
var privateRanges = []netip.Prefix{
	netip.MustParsePrefix("10.0.0.0/8"),
	netip.MustParsePrefix("172.16.0.0/12"),
	netip.MustParsePrefix("192.168.0.0/16"),
	netip.MustParsePrefix("fc00::/7"),
}

var globalIPv6 = netip.MustParsePrefix("2000::/3")

// reserved holds what netip has no method for: ranges of RFC 6890 and its
// successors that are not somebody's public host, and tunnels that carry an
// IPv4 address inside.
var reserved = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),
	netip.MustParsePrefix("100.64.0.0/10"), // carrier-grade NAT, cloud metadata
	netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("192.0.2.0/24"),
	netip.MustParsePrefix("192.88.99.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"),
	netip.MustParsePrefix("198.51.100.0/24"),
	netip.MustParsePrefix("203.0.113.0/24"),
	netip.MustParsePrefix("240.0.0.0/4"),
	netip.MustParsePrefix("2001::/23"), // Teredo and protocol assignments
	netip.MustParsePrefix("2001:db8::/32"),
	netip.MustParsePrefix("2002::/16"), // 6to4
	netip.MustParsePrefix("3fff::/20"),
}
