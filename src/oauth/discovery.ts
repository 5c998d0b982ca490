// From the address of an MCP server to what its OAuth provider is: policy alone, no database. The guard is the only way out.
import type { Outside } from '../kernel/guarded-fetch.ts'

/** Something that works, but that an administrator should know. */
export type Warning = { code: WarningCode; detail: string }
export type WarningCode =
  | 'challenge_unreadable'
  | 'scope_dropped'
  | 'legacy_discovery'
  | 'default_endpoints'
  | 'server_skipped'
  | 'issuer_slash'
  | 'pkce_assumed'

export type Discovered = {
  /** Exactly as the metadata has it: what an answer's `iss` is compared to. */
  issuer: string | null
  issuer_in_answers: boolean
  /** Exactly as the metadata has it; null where the server publishes none, and then none is sent. */
  resource: string | null
  auth_url: string
  token_url: string
  registration_url: string | null
  revocation_url: string | null
  auth_methods: string[]
  /** Null where the server does not say. */
  grant_types: string[] | null
  supports_metadata_document: boolean
  scopes: string[]
  uses_pkce: boolean
  code_challenge_method: 'S256' | null
  warnings: Warning[]
}

export type Options = {
  /** Whether an authorization server at that host (with its port, if it has one) is taken to support S256 though it lists no methods. */
  assumeS256: (host: string) => boolean
  /** Where there is no metadata at all: the endpoints that the first version of the specification gave by default. */
  defaultEndpoints: boolean
}

export async function discover(_outside: Outside, _server: URL, _options: Options): Promise<Discovered> {
  throw new Error('on its way')
}
