// An OAuth provider: its servers and their health, the last check step by step, its connections, and its settings.
import { useState } from 'preact/hooks'
import { useLocation } from 'wouter-preact'
import { faultAt, listFaults } from '../../api/faults.ts'
import { explainMissing } from '../../api/permissions.ts'
import { isMissing, usePages, useRead } from '../../api/queries.ts'
import type { State } from '../../format/state.ts'
import { formatExact } from '../../format/time.ts'
import { ActionButton, CopyAs, useAction } from '../../parts/action.tsx'
import { Button, ButtonLink } from '../../parts/button.tsx'
import { Card } from '../../parts/card.tsx'
import { CopyButton } from '../../parts/copy.tsx'
import { CheckField, SelectField, TextField, unlessChanged } from '../../parts/form.tsx'
import { Form, SecretField } from '../../parts/form-frame.tsx'
import { PageHead, Stack } from '../../parts/page.tsx'
import { CommandLine, Empty, Skeleton } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { Prose } from '../../parts/prose.tsx'
import { Body, Facts, Foot, Marked, Note } from '../../parts/sections.tsx'
import { StateLabel } from '../../parts/state.tsx'
import { Cell, More, Row, Table } from '../../parts/table.tsx'
import { Ago } from '../../parts/time.tsx'
import { useCrumbs } from '../../router/crumbs.ts'
import { toAddress, useFilter } from '../../router/links.tsx'
import type { ScreenProps } from '../screen-props.ts'
import {
  type Connection,
  changeProvider,
  deleteProvider,
  disconnect,
  type PatchBody,
  recheckProvider,
} from './actions.ts'
import { AUTH_METHODS } from './by-hand.tsx'
import { HEALTH_REMEDIES, isUnchecked, type Provider, REGISTRATIONS, stateOfProvider } from './discovery-steps.ts'
import { Trace, Warnings } from './trace.tsx'

const PAGE_SIZE = 50
/** Tokens are refreshed and expire without an event. */
const CONNECTIONS_EVERY_MS = 30_000

export default function ProviderPage({ workspace, params, me }: ScreenProps<{ provider: string }>) {
  const ref = { params: { provider_id: params.provider } }
  const { data: provider, error, refetch } = useRead(workspace, 'GET /v2/auth/providers/{provider_id}', ref)
  const [edit, setEdit] = useFilter('edit')
  const [, navigate] = useLocation()
  const cannotUse = explainMissing(me, workspace, 'tokens:use')
  const connections = usePages(
    workspace,
    'GET /v2/auth/tokens',
    { query: { provider: params.provider, limit: PAGE_SIZE } },
    { enabled: cannotUse === undefined, everyMs: CONNECTIONS_EVERY_MS },
  )
  useCrumbs({ label: 'Providers', to: '/providers' }, { label: provider?.name ?? '…' })
  if (isMissing(error))
    return (
      <Empty
        title="Provider not found"
        action={<ButtonLink href={toAddress('/providers')}>Open the providers</ButtonLink>}
      >
        The provider was deleted, or it is in another organization.
      </Empty>
    )
  if (error && !provider) return <Problem error={error} onRetry={() => void refetch()} />
  if (!provider) return <Skeleton lines={9} />
  const { name, provider_id, health, health_detail, warnings, trace } = provider
  const state = stateOfProvider(provider)
  const cannotChange = explainNotYours(me, workspace, provider, 'deployments:update')
  const recheck = recheckProvider(provider, explainMissing(me, workspace, 'deployments:update'))
  return (
    <>
      <PageHead
        title={name}
        state={<StateLabel state={state} large />}
        actions={
          <>
            <ActionButton action={recheck} icon="again" />
            <Button aria-expanded={edit !== ''} unavailable={cannotChange} onClick={() => setEdit(edit ? '' : 'yes')}>
              Edit
            </Button>
          </>
        }
        meta={[
          <code>{provider_id}</code>,
          provider.mcp_server_url ? 'Discovered from an MCP server' : 'Created by hand',
          !isUnchecked(provider) && (
            <span>
              Checked <Ago time={provider.checked_at} suffix=" ago" />
            </span>
          ),
        ]}
      />
      <Stack>
        {health !== 'healthy' && (
          <Card tone={state.tone === 'bad' ? 'bad' : 'warn'} title={<Marked {...state}>{state.word}</Marked>}>
            <Body>
              {health_detail && (
                <Note>
                  <Prose text={health_detail} />
                </Note>
              )}
              <Note>{HEALTH_REMEDIES[health]}</Note>
            </Body>
          </Card>
        )}
        {edit && !cannotChange && (
          <EditCard provider={provider} key={provider.updated_at} onClose={() => setEdit('')} />
        )}
        <Card title="Servers and client">
          <Body>
            <Facts facts={listFacts(provider)} />
          </Body>
        </Card>
        <Connections
          {...connections}
          cannotUse={cannotUse}
          provider={provider}
          onMore={() => void connections.fetchNextPage()}
        />
        {warnings && warnings.length > 0 && (
          <Card title="Warnings of the last check">
            <Body>
              <Warnings warnings={warnings} />
            </Body>
          </Card>
        )}
        {trace && trace.length > 0 && (
          <Card title="The last check, step by step" aside={<Ago time={provider.checked_at} suffix=" ago" />}>
            <Trace trace={trace} hasFailed={health === 'unreachable' || (health === 'degraded' && !warnings?.length)} />
          </Card>
        )}
      </Stack>
      <Foot>
        <p>
          Created <Ago time={provider.created_at} suffix=" ago" />. Id <code>{provider.id}</code>
        </p>
        <ActionButton
          small
          look="bare"
          action={deleteProvider(
            provider,
            connections.items?.length,
            explainNotYours(me, workspace, provider, 'deployments:delete'),
          )}
          onDone={() => navigate(toAddress('/providers'))}
        />
      </Foot>
    </>
  )
}

/** Providers belong to the organization: other workspaces may be connected through them. */
function explainNotYours(
  me: ScreenProps['me'],
  workspace: string,
  { made_by_workspace }: Provider,
  permission: 'deployments:update' | 'deployments:delete',
): string | undefined {
  const missing = explainMissing(me, workspace, permission)
  if (missing || made_by_workspace === workspace || me.permissions.includes('organization:manage-providers'))
    return missing
  return 'Another workspace created this provider. You need the permission organization:manage-providers to change it.'
}

const copied = (text: string, label: string) => (
  <>
    <code>{text}</code>
    <CopyButton text={() => text} label={label} />
  </>
)

const listFacts = (provider: Provider): Parameters<typeof Facts>[0]['facts'] => [
  ['MCP server', provider.mcp_server_url && <code>{provider.mcp_server_url}</code>],
  ['Authorization server', provider.issuer && <code>{provider.issuer}</code>],
  ['People sign in at', <code>{provider.auth_url}</code>],
  ['Tokens come from', <code>{provider.token_url}</code>],
  ['Tokens are revoked', provider.revocation_url ? <code>{provider.revocation_url}</code> : 'Not supported'],
  ['Redirect URI', copied(provider.redirect_uri, 'Copy the redirect URI')],
  ['Scopes', provider.scopes.length > 0 ? <code>{provider.scopes.join(' ')}</code> : 'None requested'],
  ['Client', REGISTRATIONS[provider.registration]],
  ['Client id', copied(provider.client_id, 'Copy the client id')],
  ['Client authentication', <code>{provider.token_endpoint_auth_method}</code>],
  ['PKCE', provider.uses_pkce ? 'S256' : 'Not used'],
  [
    'Secret expires',
    provider.client_secret_expires_at && (
      <time dateTime={provider.client_secret_expires_at}>{formatExact(provider.client_secret_expires_at)}</time>
    ),
  ],
]

// ---- connections

const CONNECTED: State = { word: 'Connected', tone: 'ok', shape: 'check' }
const MUST_CONNECT: State = { word: 'Needs to reconnect', tone: 'warn', shape: 'triangle' }

const describeExpiry = ({ expires_at, refreshable }: Connection): string => {
  if (expires_at === null) return 'Does not expire'
  return refreshable ? 'Refreshed when it expires' : `Until ${formatExact(expires_at)}`
}

type ConnectionsProps = {
  items: Connection[] | undefined
  error: Error | null
  hasNextPage: boolean
  isFetchingNextPage: boolean
  cannotUse: string | undefined
  provider: Provider
  onMore: () => void
}
const Connections = ({
  items,
  error,
  hasNextPage,
  isFetchingNextPage,
  cannotUse,
  provider,
  onMore,
}: ConnectionsProps) => (
  <Card
    title="Connections of this workspace"
    aside={items && items.length > 0 && `${items.length}${hasNextPage ? '+' : ''}, read every 30 s`}
  >
    {error && !items && <Problem error={error} />}
    {cannotUse && (
      <Body>
        <Note>{cannotUse}</Note>
      </Body>
    )}
    {!items && !error && !cannotUse && <Skeleton lines={2} />}
    {items?.length === 0 && (
      <Body>
        <Note>
          No connections yet. An application starts a connection, and sends the person to the URL in the response:
        </Note>
        <CommandLine
          command={
            `echo '{"provider": "${provider.provider_id}", "user_id": "ada"}' | slipway api POST ` +
            '/v2/auth/authenticate --input -'
          }
        />
      </Body>
    )}
    {items && items.length > 0 && (
      <Table
        caption="Connections of this workspace, newest first"
        columns={[
          { label: 'Person', width: '28%' },
          { label: 'State', width: '28%' },
          { label: 'Scopes' },
          { label: 'Connected', width: '170', isEnd: true },
        ]}
      >
        {items.map(one => (
          <Row key={one.id}>
            <Cell>
              <span title={one.user_id}>{one.user_id}</span>
            </Cell>
            <Cell detail={describeExpiry(one)}>
              <StateLabel state={one.connected ? CONNECTED : MUST_CONNECT} />
            </Cell>
            <Cell isWideOnly>
              <code title={one.scopes.join(' ')}>{one.scopes.join(' ') || '–'}</code>
            </Cell>
            <Cell isEnd detail={<Ago time={one.created_at} suffix=" ago" />}>
              <ActionButton small action={disconnect(one)} />
            </Cell>
          </Row>
        ))}
      </Table>
    )}
    {hasNextPage && <More isBusy={isFetchingNextPage} onMore={onMore} />}
  </Card>
)

// ---- changing it

function EditCard({ provider, onClose }: { provider: Provider; onClose: () => void }) {
  const isByHand = provider.mcp_server_url === null
  const isGiven = provider.registration === 'given'
  const [draft, setDraft] = useState({
    name: provider.name,
    scopes: provider.scopes.join(' '),
    clientId: provider.client_id,
    clientSecret: '',
    method: provider.token_endpoint_auth_method,
    authUrl: provider.auth_url,
    tokenUrl: provider.token_url,
    revocationUrl: provider.revocation_url ?? '',
    usesPkce: provider.uses_pkce,
  })
  const set = (part: Partial<typeof draft>) => setDraft(current => ({ ...current, ...part }))
  const { start, busy, error, question } = useAction({ onDone: onClose, showsError: true })
  const faults = listFaults(error)
  const changed = <Name extends string, Value>(name: Name, value: Value, stored: Value) =>
    value === stored ? {} : { [name]: value }
  const body: PatchBody = {
    ...changed('name', draft.name, provider.name),
    ...changed('scopes', draft.scopes, provider.scopes.join(' ')),
    ...(draft.scopes !== provider.scopes.join(' ') && { scopes: draft.scopes.split(/[\s,]+/).filter(Boolean) }),
    ...changed('client_id', draft.clientId, provider.client_id),
    ...(draft.clientSecret && { client_secret: draft.clientSecret }),
    ...changed('token_endpoint_auth_method', draft.method, provider.token_endpoint_auth_method),
    ...changed('auth_url', draft.authUrl, provider.auth_url),
    ...changed('token_url', draft.tokenUrl, provider.token_url),
    ...changed('revocation_url', draft.revocationUrl, provider.revocation_url ?? ''),
    ...changed('uses_pkce', draft.usesPkce, provider.uses_pkce),
  }
  const action = changeProvider(provider, body, undefined)
  const isChanged = Object.keys(body).length > 0
  const byServer = isByHand ? undefined : 'Read from the MCP server. It cannot be changed here.'
  const registered = isGiven ? undefined : 'Registered automatically. It cannot be changed here.'
  return (
    <Card title={`Edit ${provider.name}`}>
      <Form
        error={error}
        label={`Edit ${provider.name}`}
        onSubmit={() => isChanged && start(action)}
        footer={
          <>
            <Button type="submit" look="primary" busy={busy} unavailable={unlessChanged(isChanged)}>
              {action.label}
            </Button>
            <Button onClick={onClose}>Discard changes</Button>
            <CopyAs action={action} />
          </>
        }
      >
        <TextField
          label="Name"
          value={draft.name}
          onChange={name => set({ name })}
          isChanged={'name' in body}
          fault={faultAt(faults, 'name')}
        />
        <TextField
          label="Scopes"
          mono
          value={draft.scopes}
          onChange={scopes => set({ scopes })}
          isChanged={'scopes' in body}
          hint="The default scopes, separated by spaces."
          fault={faultAt(faults, 'scopes')}
        />
        <TextField
          label="Client id"
          mono
          value={draft.clientId}
          onChange={clientId => set({ clientId })}
          isChanged={'client_id' in body}
          hint="A new client id ends all connections."
          unavailable={registered}
          fault={faultAt(faults, 'client_id')}
        />
        {isGiven && (
          <>
            <SecretField
              label="New client secret"
              value={draft.clientSecret}
              onChange={clientSecret => set({ clientSecret })}
              hint="Leave it empty to keep the stored secret. Enter it again after you change an endpoint."
              fault={faultAt(faults, 'client_secret')}
            />
            <SelectField
              label="How the client authenticates"
              value={draft.method}
              onChange={method => set({ method })}
              options={AUTH_METHODS.filter(({ value }) => value !== '')}
              isChanged={'token_endpoint_auth_method' in body}
              fault={faultAt(faults, 'token_endpoint_auth_method')}
            />
          </>
        )}
        <TextField
          label="Authorization endpoint"
          mono
          value={draft.authUrl}
          onChange={authUrl => set({ authUrl })}
          isChanged={'auth_url' in body}
          unavailable={byServer}
          fault={faultAt(faults, 'auth_url')}
        />
        <TextField
          label="Token endpoint"
          mono
          value={draft.tokenUrl}
          onChange={tokenUrl => set({ tokenUrl })}
          isChanged={'token_url' in body}
          unavailable={byServer}
          fault={faultAt(faults, 'token_url')}
        />
        {isByHand && (
          <>
            <TextField
              label="Revocation endpoint"
              mono
              value={draft.revocationUrl}
              onChange={revocationUrl => set({ revocationUrl })}
              isChanged={'revocation_url' in body}
              fault={faultAt(faults, 'revocation_url')}
            />
            <CheckField
              label="Use PKCE (S256)"
              checked={draft.usesPkce}
              onChange={usesPkce => set({ usesPkce })}
              isChanged={'uses_pkce' in body}
            />
          </>
        )}
      </Form>
      {question}
    </Card>
  )
}
