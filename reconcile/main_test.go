package reconcile_test

import (
	"os"
	"testing"

	"rollcall/sql/sqltest"
)

func TestMain(m *testing.M) { os.Exit(sqltest.Main(m)) }
