package sql

import (
	_ "embed"
)

//go:embed query/audit_insert.sql
var auditInsertSQL string

//go:embed query/audit_find.sql
var auditFindSQL string
