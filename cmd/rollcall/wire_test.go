package main

import (
	"net/netip"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"rollcall/batch/openai"
	"rollcall/configs"
)

// TestEveryAccountSettingReachesTheClient: a setting that is read and never
// passed on is worse than one that is not there.
func TestEveryAccountSettingReachesTheClient(t *testing.T) {
	o := newOperator(t, "sqlite")
	a := &app{out: t.Output(), errOut: t.Output(), configPath: filepath.Join(o.dir, "rollcall.yaml")}
	d, err := a.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	full := configs.Account{
		Name: "n", Provider: "openai", BaseURL: "https://host.test/v1", Region: "mars", Organization: "org", Project: "proj",
		APIKey: d.config.Accounts[0].APIKey, AllowLoopback: true, CAFile: "ca.pem", PermittedRanges: []string{"10.0.0.0/8"},
		CallTimeout: configs.Duration(time.Second), TransferTimeout: configs.Duration(time.Minute),
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[configs.Account]()) {
		if f.IsExported() && reflect.ValueOf(full).FieldByIndex(f.Index).IsZero() {
			t.Errorf("this test does not set %s", f.Name)
		}
	}
	got := d.clientConfig(full)
	if got.APIKey() == "" || len(got.FingerprintKey) == 0 {
		t.Error("the client gets no key")
	}
	got.APIKey, got.FingerprintKey = nil, nil
	want := openai.Config{
		Name: "n", BaseURL: "https://host.test/v1", Region: "mars", Organization: "org", Project: "proj", AllowLoopback: true, CAFile: "ca.pem",
		PermittedRanges: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, CallTimeout: time.Second, TransferTimeout: time.Minute,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the client gets %+v, want %+v", got, want)
	}
}
