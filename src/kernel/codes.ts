// The closed set of error codes: each with its status, its title and the sentence that says what to do.
export const CODES = {
  state_invalid: [
    400,
    'This address works no more',
    'It was used already, is older than ten minutes, or was never given out; go back to the application and connect again.',
  ],
  answer_issuer_mismatch: [
    400,
    'Another server answered',
    'The answer is not from the authorization server that was asked, so it was not used; connect again, and tell whoever runs the application if it persists.',
  ],
  authorization_denied: [
    400,
    'Access was not granted',
    'Whoever was asked did not grant access; connect again to grant it.',
  ],
  authorization_refused: [
    400,
    'The authorization server refused',
    'The authorization server did not let the person in; see that the provider’s client, its scopes and its redirect URI are as the server knows them.',
  ],
  body_too_slow: [
    408,
    'Body too slow',
    'The body did not arrive in time. Send the request again over a faster connection.',
  ],
  host_unknown: [
    400,
    'Unknown host',
    'Without PUBLIC_URL this installation answers at localhost and other loopback addresses only. Use one of them, or set PUBLIC_URL.',
  ],
  body_cut: [400, 'Body cut off', 'The body broke off before its end; send the request again.'],
  source_rule: [
    400,
    'Not allowed for this source',
    'The request does not fit the source of the deployment. Remove, add or change what is named.',
  ],
  custom_host_reserved: [
    400,
    'Custom host reserved',
    'The host of `custom_url` belongs to this installation. Choose a host of your own',
  ],
  member_immutable: [400, 'Immutable member', 'It cannot be changed after creation; make another, or leave it out'],
  tags_full: [400, 'Too many tags', 'A deployment bears at most 50 tags; take some off first.'],
  tag_keys_full: [
    400,
    'Too many tag keys',
    'A workspace has at most 100 tag keys; delete one that no longer serves first.',
  ],
  tag_values_full: [
    400,
    'Too many tag values',
    'A tag key has at most 1000 values; delete one that no longer serves first.',
  ],
  secret_required: [
    400,
    'Secret needed again',
    'The stored secret was given for another address and is not sent to the new one. Send the secret again with the new address',
  ],
  secret_unknown: [
    400,
    'Unknown secret',
    'The mask keeps the value of a secret that is there, and this one is not; send its value',
  ],
  variable_doubled: [
    400,
    'Secret and reference at once',
    'An environment variable is either a secret or a reference to one; rename or remove one of the two',
  ],
  archive_unknown: [
    400,
    'No such archive',
    '`source_tarball_path` needs to be the `object_path` of an upload of this workspace that was completed; upload the archive first.',
  ],
  integration_unknown: [
    400,
    'No such integration',
    '`source_config.integration_id` needs to be an integration of this workspace; GET /v1/integrations/forge/githost/install lists them.',
  ],
  githost_app_missing: [
    400,
    'No App of this installation',
    'This installation has no GitHub App of its own; connect one with its credentials by POST /v1/integrations/forge/githost, or let the operator set GITHUB_APP_ID and what goes with it.',
  ],
  installation_requested: [
    400,
    'Waiting for an owner',
    'An owner of the account has to approve the installation first; connect again when they have.',
  ],
  role_required: [
    400,
    'Role required',
    'This organisation has RBAC enabled: give `role_id`; GET /orgs/current/roles lists the roles.',
  ],
  role_built_in: [400, 'Built-in role', 'Built-in roles cannot be changed or deleted; make a custom role instead.'],
  permission_beyond_scope: [
    400,
    'Permission beyond scope',
    'A role of scope `workspace` cannot hold permissions of the organisation; remove them or use scope `organization`.',
  ],
  permission_not_in_role: [
    400,
    'Permission not in role',
    'A key can be narrowed only to permissions that its role has; leave the others out.',
  ],
  last_admin: [
    400,
    'Last Admin',
    'The last Admin of a workspace cannot be removed or demoted; make another member Admin first.',
  ],
  last_organization_admin: [
    400,
    'Last Organization Admin',
    'The last Organization Admin cannot be removed or demoted; make another member Organization Admin first.',
  ],
  key_missing: [401, 'No API key', 'Send an API key in `X-Api-Key` or `Authorization: Bearer`.'],
  key_malformed: [
    401,
    'Malformed API key',
    'The API key is mistyped or cut: its checksum does not match. Copy it again, whole.',
  ],
  delivery_unsigned: [
    401,
    'Not signed',
    'The signature of this delivery is not that of its body; set the same secret at the git host and here, and SHA-256.',
  ],
  key_unknown: [401, 'Unknown API key', 'No such API key. Use a key of this installation.'],
  key_revoked: [401, 'Revoked API key', 'This API key was revoked. Use another one.'],
  key_expired: [401, 'Expired API key', 'This API key has expired. Make a new one.'],
  push_token_invalid: [
    401,
    'Not a push token',
    'The password needs to be the `token` of a `push-token` request, as it was given, whole.',
  ],
  push_token_expired: [401, 'Push token expired', 'This push token has expired; ask for another one and log in again.'],
  registry_credential_ended: [
    401,
    'Registry credential ended',
    'This credential of an agent is of use no more: its hour is over, its key was revoked, or its listener does not serve that deployment; ask for another one by POST /v1/sync/credentials.',
  ],
  permission_missing: [
    403,
    'Permission missing',
    'This key lacks the permission that this operation needs. Use a key that has it.',
  ],
  workspace_required: [
    403,
    'Workspace required',
    'An organisation key requires workspace specification: send the workspace id in `X-Tenant-Id`.',
  ],
  workspace_forbidden: [
    403,
    'Workspace forbidden',
    'This key may not enter the workspace in `X-Tenant-Id`. Use a key of that workspace, or leave the header out.',
  ],
  provider_not_yours: [
    403,
    'Not your provider',
    'A workspace can change only a provider that it made and that no other workspace is connected through. Use a key with `organization:manage-providers`',
  ],
  role_exceeds_actor: [403, 'Role exceeds yours', 'This would grant permissions that your own key does not have.'],
  key_outlives_creator: [
    403,
    'Key outlives its creator',
    'A key cannot make a key that lives longer than itself; give an earlier `expires_at`.',
  ],
  installation_unproven: [
    403,
    'Not yours to connect',
    'The git host did not say that this installation, with all the repositories that it reaches, is yours; connect it as somebody who administers the account.',
  ],
  upload_link_invalid: [
    403,
    'Not an upload link',
    'The signature of this address does not match; use an `upload_url` as it was given, whole.',
  ],
  download_link_invalid: [
    403,
    'Not a download link',
    'The signature of this address does not match; use the address that a poll gave, whole.',
  ],
  route_not_found: [404, 'No such path', 'There is no such path; /openapi.json and /docs list them all.'],
  organization_not_found: [404, 'No such organisation', 'There is no such organisation.'],
  workspace_not_found: [404, 'No such workspace', 'There is no such workspace in reach of this key.'],
  member_not_found: [404, 'No such member', 'There is no such member; list the members to find its id.'],
  role_not_found: [404, 'No such role', 'There is no such role here; GET /orgs/current/roles lists them.'],
  key_not_found: [404, 'No such API key', 'There is no such API key; list the keys to find its id.'],
  deployment_not_found: [
    404,
    'No such deployment',
    'There is no such deployment in this workspace; GET /v2/deployments lists them.',
  ],
  revision_not_found: [
    404,
    'No such revision',
    'This deployment has no such revision; list its revisions to find its id.',
  ],
  hold_not_found: [404, 'No hold', 'Automatic deploys of this deployment are not held; there is nothing to release.'],
  tag_key_not_found: [404, 'No such tag key', 'There is no such tag key here; GET /v2/tag-keys lists them.'],
  tag_value_not_found: [404, 'No such tag value', 'There is no such tag value here; list those of its key.'],
  flow_not_found: [
    404,
    'No such authentication',
    'There is no such `auth_id` in this workspace; POST /v2/auth/authenticate gives one.',
  ],
  token_not_found: [
    404,
    'No such connection',
    'There is no such connection in this workspace; GET /v2/auth/tokens lists them.',
  ],
  provider_not_found: [
    404,
    'No such OAuth provider',
    'There is no such OAuth provider in this organisation; GET /v2/auth/providers lists them.',
  ],
  custom_host_unproven: [
    404,
    'DNS record not found',
    'DNS has no TXT record that proves this host. Create the record, wait until DNS shows it, and repeat the request. The record',
  ],
  integration_not_found: [
    404,
    'No such integration',
    'There is no such git host integration in this workspace; GET /v1/integrations/forge/githost/install lists them.',
  ],
  repository_not_found: [
    404,
    'No such repository',
    'The git host shows no such repository to this integration; let the installation or the account reach it.',
  ],
  preview_policy_not_found: [
    404,
    'No preview policy',
    'This deployment makes no previews; PUT /v2/deployments/{deployment_id}/preview-policy lets it.',
  ],
  preview_not_found: [
    404,
    'No such preview',
    'There is no preview of that pull request here; GET /v2/deployments/{deployment_id}/previews lists them.',
  ],
  listener_not_found: [
    404,
    'No such listener',
    'There is no such listener in this workspace, or this is no key of one; GET /v2/listeners lists them.',
  ],
  archive_not_found: [404, 'No such archive', 'That archive is gone; poll again for what is wanted now.'],
  project_not_found: [404, 'No such project', 'There is no such tracing project here; GET /sessions lists them.'],
  method_not_allowed: [405, 'Method not allowed', 'The path exists, but not with this method; see `Allow`.'],
  preview_moved: [
    409,
    'Another commit by now',
    'That commit is not what waits for approval; look at what is there now, and approve that.',
  ],
  quota_full: [
    409,
    'Limit reached',
    'Delete what is no longer needed, or ask the operator to raise the limit. The limit is',
  ],
  uploads_full: [
    409,
    'No room for archives',
    'The archives of this workspace have reached UPLOADS_MAX_GIB. Delete deployments whose archives are no longer needed. Unused archives are removed a day after their link expired.',
  ],
  upload_links_full: [
    409,
    'Too many upload links',
    'A workspace can have at most 100 unused upload links. Use one of them, or wait 15 minutes until they expire.',
  ],
  previews_full: [
    409,
    'No room for another preview',
    'The policy allows no more previews at once; close a pull request, or raise `max`.',
  ],
  workspace_name_taken: [
    409,
    'Workspace name taken',
    'A workspace of that `display_name` exists in this organisation; choose another.',
  ],
  deployment_name_taken: [
    409,
    'Deployment name taken',
    'A deployment of that `name` lives in this workspace; choose another, or delete it first.',
  ],
  project_name_taken: [
    409,
    'Project name taken',
    'A tracing project of that `name` is in this workspace, and a deployment needs one of its own; choose another.',
  ],
  provider_id_conflict: [
    409,
    'OAuth provider exists',
    'This organisation has an OAuth provider of that `provider_id`, or is making it just now; choose another, or delete it first.',
  ],
  custom_host_taken: [
    409,
    'Custom host taken',
    'Another workspace uses the host of `custom_url`. If the host is yours, POST /v2/custom-hosts/{host}/verification tells which DNS record proves it.',
  ],
  custom_url_taken: [
    409,
    'Custom URL taken',
    'Another deployment of this workspace has this `custom_url`. Choose another path, or clear it there first.',
  ],
  integration_taken: [
    409,
    'Connected already',
    'This workspace has that integration already; use it, or delete it first.',
  ],
  integration_claimed: [
    409,
    'Connected elsewhere',
    'That installation belongs to another workspace; delete the integration there, or install the App on another account.',
  ],
  integration_suspended: [
    409,
    'Suspended at the git host',
    'The installation of this integration is suspended at its git host; let an owner of the account resume it there.',
  ],
  integration_revoked: [
    409,
    'Revoked at the git host',
    'The git host no longer knows the installation of this integration; connect it again.',
  ],
  listener_exists: [
    409,
    'Listener exists',
    'A listener of that `compute_id` is registered already; use it, or choose another.',
  ],
  listener_in_use: [
    409,
    'Listener in use',
    'Deployments are still served by it, or live in a namespace that it would no longer have; delete them first.',
  ],
  lease_held: [
    409,
    'Another agent works',
    'Another agent holds the lease of this listener; wait as `Retry-After` says, and poll again without `fence`.',
  ],
  fence_stale: [
    409,
    'Fenced off',
    'This agent no longer holds the lease: stop acting, and poll without `fence` for a new one.',
  ],
  tag_key_taken: [409, 'Tag key taken', 'This workspace has that tag key already; use it, or choose another.'],
  tag_value_taken: [409, 'Tag value taken', 'The tag key has that value already; use it, or choose another.'],
  role_name_taken: [
    409,
    'Role name taken',
    'A role of that `display_name` exists in this organisation; choose another.',
  ],
  role_in_use: [409, 'Role in use', 'Members or keys still have this role; give them another first.'],
  member_exists: [409, 'Member exists', 'That person is a member already; change the membership instead.'],
  workspace_member_exists: [
    409,
    'Member of the workspace',
    'That person is a member of this workspace already; change the membership instead.',
  ],
  deployment_deleting: [409, 'Being deleted', 'This deployment is being deleted and takes no more changes.'],
  plan_stale: [
    409,
    'Stale plan',
    'The deployment or the request is no longer what was planned; ask for the plan again.',
  ],
  revision_not_interruptible: [
    409,
    'Not interruptible',
    'A revision can be interrupted until it has come to its end, and this one has',
  ],
  idempotency_in_flight: [
    409,
    'Still in flight',
    'A request with this `Idempotency-Key` is still being worked on; repeat it shortly.',
  ],
  provider_changed: [
    409,
    'The provider was changed',
    'The provider’s endpoints or client changed after the connection began. Connect again.',
  ],
  flow_expired: [410, 'Nobody came back', 'The person did not come back within ten minutes; connect again.'],
  download_link_expired: [410, 'Download link expired', 'This link has expired; poll again for another one.'],
  upload_link_expired: [410, 'Upload link expired', 'This `upload_url` has expired; ask for another one.'],
  upload_link_used: [410, 'Upload link used', 'This `upload_url` was used already; ask for another one.'],
  precondition_failed: [
    412,
    'Precondition failed',
    'It changed since you read it: GET it again and repeat with its new `ETag` in `If-Match`.',
  ],
  body_too_large: [413, 'Body too large', 'A JSON body may be at most 1 MiB.'],
  delivery_too_large: [413, 'Delivery too large', 'A delivery of a git host may be at most 25 MiB.'],
  archive_too_large: [413, 'Archive too large', 'A source archive may be at most 200 MiB.'],
  headers_too_large: [431, 'Headers too large', 'The address and the headers may be at most 16 KiB each.'],
  not_json: [415, 'Not JSON', 'Send the body as `Content-Type: application/json`.'],
  not_gzip_type: [415, 'Not a gzip', 'Send the archive as `Content-Type: application/gzip`.'],
  archive_invalid: [422, 'Not an archive', 'The body needs to be a gzip-compressed tar; make it with `tar czf`.'],
  invalid_request: [422, 'Invalid request', 'The request does not fit the schema.'],
  idempotency_key_reused: [
    422,
    'Idempotency key reused',
    'This `Idempotency-Key` was used for a different request; use a fresh one.',
  ],
  blocked_url: [
    422,
    'Blocked address',
    'Only `https` addresses of public hosts are fetched, by name; give another one',
  ],
  invalid_mcp_server_url: [
    422,
    'Not the address of a server',
    '`mcp_server_url` needs to be the whole https address of an MCP server, like https://mcp.example.com/mcp',
  ],
  oauth_not_required: [
    422,
    'No OAuth required',
    'Nothing there asks for OAuth: neither a challenge nor metadata; if it is the address of an MCP server, that needs no provider',
  ],
  resource_mismatch: [
    422,
    'Another resource',
    'The metadata that was found is of another resource; give the address that it names as `mcp_server_url`',
  ],
  issuer_mismatch: [
    422,
    'Another issuer',
    'The authorization server names another issuer than the address it was listed under; its operator needs to mend that, or create the provider by hand',
  ],
  pkce_unsupported: [
    422,
    'No PKCE',
    'The authorization server does not say that it supports PKCE with S256; if it lists no methods at all but is known to, let the organisation assume it for that host',
  ],
  metadata_invalid: [
    422,
    'Unusable metadata',
    'The OAuth metadata is missing or malformed; its operator needs to mend that, or create the provider by hand',
  ],
  unsafe_endpoint: [
    422,
    'Unsafe endpoint',
    'The authorization server names an endpoint that is not a public https address; its operator needs to mend that',
  ],
  grant_unsupported: [
    422,
    'No authorization code',
    'The authorization server does not offer the authorization code grant, and there is no other way to connect a person; choose another server',
  ],
  registration_unsupported: [
    422,
    'No registration',
    'The authorization server has no way to register a client that can be used here; register one with its operator and give its `client_id`',
  ],
  registration_rejected: [
    422,
    'Registration rejected',
    'The authorization server refused to register a client; register one with its operator and give its `client_id`',
  ],
  registration_invalid_response: [
    422,
    'Unusable registration',
    'The authorization server answered the registration with a client that cannot be used; register one with its operator and give its `client_id`',
  ],
  grant_refused: [
    422,
    'Grant refused',
    'The authorization server does not take the code or refresh token that it gave; connect again.',
  ],
  client_refused: [
    422,
    'Client refused',
    'The authorization server refused the provider’s client or its request; check the client’s id and secret, or re-check the provider',
  ],
  token_answer_invalid: [
    422,
    'Unusable token',
    'The authorization server answered without a token that can be used; its operator needs to mend that',
  ],
  githost_refused: [
    422,
    'The git host refused',
    'The git host does not take the credentials of this integration, or they may not do this; check them there, and connect again if they were replaced',
  ],
  if_match_required: [
    428,
    'If-Match required',
    'This workspace demands `If-Match`: GET the resource first and send its `ETag`.',
  ],
  rate_limited: [
    429,
    'Too many requests',
    'This key and the keys that share its budget sent too many requests. Retry after the time in `Retry-After`.',
  ],
  address_rate_limited: [
    429,
    'Too many failed requests from this address',
    'Too many requests from this address had no valid key or proof. Retry after the time in `Retry-After`.',
  ],
  githost_rate_limited: [
    429,
    'Over the git host’s rate',
    'The git host lets this integration ask no more for now; wait as `Retry-After` says.',
  ],
  journal_full: [
    429,
    'Too many changes today',
    'This workspace has made as many changes today as EVENTS_PER_DAY allows. Retry after the time in Retry-After.',
  ],
  internal: [500, 'Internal error', 'Something went wrong on our side; report the `request_id` if it persists.'],
  upstream_error: [
    502,
    'Foreign server failed',
    'A foreign server could not be reached or gave no usable answer; see that it works, then try again',
  ],
  not_ready: [
    503,
    'Not ready',
    'The database schema is not at the version this build expects; run `npm run db:migrate`.',
  ],
  not_configured: [503, 'Not configured', 'This installation lacks a setting or has a broken one; its log names it.'],
  database_unavailable: [
    503,
    'Database unavailable',
    'The database did not answer; nothing was lost, repeat the request shortly.',
  ],
  deliveries_busy: [
    503,
    'Too many deliveries at once',
    'The deliveries that arrive right now fill the memory reserved for them. Deliver this one again after the time in `Retry-After`.',
  ],
  storage_unavailable: [
    503,
    'Storage unavailable',
    'The storage of archives did not take this one; ask for another `upload_url` and upload it again shortly.',
  ],
  upstream_timeout: [504, 'Foreign server too slow', 'A foreign server did not answer in time; try again later'],
} as const satisfies Record<string, readonly [number, string, string]>

export type Code = keyof typeof CODES
export const codes = Object.keys(CODES) as Code[]
export const isCode = (word: unknown): word is Code => typeof word === 'string' && Object.hasOwn(CODES, word)
export const titleOf = (code: Code): string => CODES[code][1]
export const detailOf = (code: Code): string => CODES[code][2].replace(/\.?$/, '.')
export const statusOf = (code: Code): number => CODES[code][0]

/** Every code with its status and sentence, for the document. */
export const listCodes = () =>
  codes.map(code => ({ code, status: statusOf(code), title: CODES[code][1], detail: CODES[code][2] }))
export const codesWithStatus = (status: number) => listCodes().filter(one => one.status === status)
