// A finding of discovery that does not prevent use, for administrators.
export type Warning = { code: WarningCode; detail: string }
type WarningCode =
  | 'challenge_unreadable'
  | 'scope_dropped'
  | 'legacy_discovery'
  | 'default_endpoints'
  | 'server_skipped'
  | 'issuer_slash'
  | 'pkce_assumed'
export type Warn = (code: WarningCode, detail: string) => void
