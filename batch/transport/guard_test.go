package transport

import (
	"errors"
	"net/http"
	"net/netip"
	"testing"
	"time"
)

func TestPermit(t *testing.T) {
	tenNet := []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}
	world := []netip.Prefix{netip.MustParsePrefix("104.18.0.0/16")} // New refuses it; the guard still knows nothing else
	everything := []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}
	for _, tc := range []struct {
		addr string
		g    guard
		ok   bool
	}{
		{"104.18.7.192", guard{}, true},
		{"2606:4700::6812:7c0", guard{}, true},
		{"127.0.0.1", guard{}, false},
		{"127.9.9.9", guard{}, false},
		{"::1", guard{}, false},
		{"0.0.0.0", guard{}, false},
		{"::", guard{}, false},
		{"0.1.2.3", guard{}, false},
		{"10.1.2.3", guard{}, false},
		{"172.16.0.1", guard{}, false},
		{"192.168.1.1", guard{}, false},
		{"169.254.169.254", guard{}, false},
		{"100.100.100.200", guard{}, false},
		{"224.0.0.1", guard{}, false},
		{"255.255.255.255", guard{}, false},
		{"198.18.0.1", guard{}, false},
		{"fe80::1", guard{}, false},
		{"fe80::1%eth0", guard{}, false},
		{"fc00::1", guard{}, false},
		{"fec0::1", guard{}, false},
		{"ff02::1", guard{}, false},
		{"::ffff:104.18.7.192", guard{}, false},
		{"::ffff:127.0.0.1", guard{loopbackOnly: true}, false},
		{"64:ff9b::7f00:1", guard{}, false},
		{"2002:7f00:1::", guard{}, false},
		{"2001::1", guard{}, false},
		{"2001:db8::1", guard{}, false},
		{"127.0.0.1", guard{loopbackOnly: true}, true},
		{"::1", guard{loopbackOnly: true}, true},
		{"104.18.7.192", guard{loopbackOnly: true}, false},
		{"10.1.2.3", guard{loopbackOnly: true, permitted: tenNet}, false},
		{"10.1.2.3", guard{permitted: tenNet}, true},
		{"10.2.2.3", guard{permitted: tenNet}, false},
		{"127.0.0.1", guard{permitted: everything}, false},
		{"169.254.169.254", guard{permitted: everything}, false},
		{"::ffff:10.1.2.3", guard{permitted: everything}, false},
		{"10.1.2.3", guard{permittedOnly: true, permitted: tenNet}, true},
		{"10.2.2.3", guard{permittedOnly: true, permitted: tenNet}, false},
		{"104.18.7.192", guard{permittedOnly: true, permitted: tenNet}, false},
		{"127.0.0.1", guard{permittedOnly: true, permitted: tenNet}, false},
		{"2606:4700::6812:7c0", guard{permittedOnly: true, permitted: world}, false},
	} {
		err := tc.g.permit(netip.MustParseAddr(tc.addr))
		if (err == nil) != tc.ok || err != nil && !errors.Is(err, ErrAddress) {
			t.Errorf("%s with %+v: %v, want permitted %v", tc.addr, tc.g, err, tc.ok)
		}
	}
}

func TestPrivate(t *testing.T) {
	for text, want := range map[string]bool{
		"10.0.0.0/8": true, "10.20.0.0/16": true, "172.16.5.0/24": true, "172.16.0.0/12": true, "192.168.1.4/32": true, "fd12::/16": true, "fc00::/7": true,
		"10.0.0.0/7": false, "172.0.0.0/8": false, "172.32.0.0/16": false, "192.0.0.0/8": false, "0.0.0.0/0": false, "::/0": false, "fc00::/6": false,
		"104.18.0.0/16": false, "127.0.0.0/8": false, "169.254.0.0/16": false, "fe80::/10": false, "::ffff:10.0.0.0/104": false,
	} {
		if got := private(netip.MustParsePrefix(text)); got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 10, 21, 7, 0, 0, 0, time.UTC)
	for v, want := range map[string]time.Duration{
		"":                                  0,
		"0":                                 0,
		"7":                                 7 * time.Second,
		" 7 ":                               7 * time.Second,
		"2026":                              2026 * time.Second,
		"-3":                                0,
		"1.5":                               0,
		"soon":                              0,
		"86401":                             24 * time.Hour,
		"99999999999999999999999999":        24 * time.Hour,
		"Wed, 21 Oct 2026 07:28:00 GMT":     28 * time.Minute,
		"Wed, 21 Oct 2026 06:59:00 GMT":     0,
		"Wed, 21 Oct 2126 07:28:00 GMT":     24 * time.Hour,
		"Wednesday, 21-Oct-26 07:01:00 GMT": time.Minute,
		"Wed, 99 Oct 2026 07:28:00 GMT":     0,
	} {
		h := http.Header{}
		if v != "" {
			h.Set("Retry-After", v)
		}
		if got := RetryAfter(h, func() time.Time { return now }); got != want {
			t.Errorf("%q: %v, want %v", v, got, want)
		}
	}
}
