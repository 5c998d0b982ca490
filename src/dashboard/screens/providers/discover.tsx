// Creates a provider from the address of an MCP server: shows each step of the discovery before anything is registered.
import { useState } from 'preact/hooks'
import { useLocation } from 'wouter-preact'
import { ApiError, getClient } from '../../api/client.ts'
import { faultAt, listFaults } from '../../api/faults.ts'
import { ActionButton } from '../../parts/action.tsx'
import { Button, ButtonLink } from '../../parts/button.tsx'
import { Card } from '../../parts/card.tsx'
import { CopyButton } from '../../parts/copy.tsx'
import { SelectField, TextField } from '../../parts/form.tsx'
import { Form, SecretField } from '../../parts/form-frame.tsx'
import { PageHead, Stack } from '../../parts/page.tsx'
import { Problem } from '../../parts/problem.tsx'
import { Body, Facts, Marked, Note } from '../../parts/sections.tsx'
import { useCrumbs } from '../../router/crumbs.ts'
import { toAddress } from '../../router/links.tsx'
import { createDiscovered, type DiscoveryBody } from './actions.ts'
import styles from './discover.module.css'
import {
  type Fetched,
  HELPED_BY_HAND,
  NEEDS_CLIENT,
  REGISTRATIONS,
  REMEDIES,
  suggestId,
  suggestName,
} from './discovery-steps.ts'
import { NEW_BY_HAND } from './list.tsx'
import { Trace, Warnings } from './trace.tsx'

const DISCOVER = 'POST /v2/auth/providers/mcp-discover'
const previewProvider = (body: DiscoveryBody) => getClient().plan(DISCOVER, { body })
const NEXT = {
  given: 'The client that you registered.',
  metadata_document: 'A client-ID metadata document of this installation. No registration is needed.',
  dynamic: 'Registered when you create the provider.',
}
type Preview = Awaited<ReturnType<typeof previewProvider>>
/** The result of a discovery with its request. A form that has changed since needs another discovery. */
type Result = { body: DiscoveryBody; preview?: Preview; error?: Error }

type Draft = {
  address: string
  id: string | undefined
  name: string | undefined
  clientId: string
  clientSecret: string
  scopes: string
  registration: NonNullable<DiscoveryBody['registration']>
}
const EMPTY: Draft = {
  address: '',
  id: undefined,
  name: undefined,
  clientId: '',
  clientSecret: '',
  scopes: '',
  registration: 'auto',
}

function toBody({ address, id, name, clientId, clientSecret, scopes, registration }: Draft): DiscoveryBody {
  const provider_id = id ?? suggestId(address.trim())
  const wanted = scopes.split(/[\s,]+/).filter(Boolean)
  return {
    provider_id,
    name: name ?? suggestName(provider_id),
    mcp_server_url: address.trim(),
    ...(clientId && { client_id: clientId }),
    ...(clientSecret && { client_secret: clientSecret }),
    ...(wanted.length > 0 && { scopes: wanted }),
    ...(registration !== 'auto' && !clientId && { registration }),
  }
}

export default function DiscoverProvider() {
  useCrumbs({ label: 'Providers', to: '/providers' }, { label: 'Discover' })
  const [draft, setDraft] = useState(EMPTY)
  const [result, setResult] = useState<Result>()
  const [busy, setBusy] = useState(false)
  const set = (part: Partial<Draft>) => setDraft(current => ({ ...current, ...part }))
  const body = toBody(draft)
  const isCurrent = result !== undefined && JSON.stringify(result.body) === JSON.stringify(body)
  const needsClient = result?.error instanceof ApiError && NEEDS_CLIENT.includes(result.error.code)
  const faults = listFaults(result?.error)
  const redirectUri = `${location.origin}/v2/auth/callback/${body.provider_id || 'ID'}`

  async function discover(): Promise<void> {
    setBusy(true)
    try {
      setResult({ body, preview: await previewProvider(body) })
    } catch (error) {
      setResult({ body, error: error as Error })
    }
    setBusy(false)
  }
  return (
    <>
      <PageHead
        title="Discover a provider"
        actions={<ButtonLink href={toAddress(NEW_BY_HAND)}>Create by hand instead</ButtonLink>}
      />
      <Stack>
        <Card title="MCP server">
          <Form
            label="MCP server"
            onSubmit={() => !busy && void discover()}
            footer={
              <>
                <Button type="submit" look={result?.preview && isCurrent ? 'default' : 'primary'} busy={busy}>
                  {result && isCurrent ? 'Discover again' : 'Discover'}
                </Button>
                <ButtonLink href={toAddress('/providers')}>Cancel</ButtonLink>
                <span class={styles.aside}>Discovery stores and registers nothing.</span>
              </>
            }
          >
            <TextField
              label="Address of the MCP server"
              mono
              inputMode="url"
              value={draft.address}
              onChange={address => set({ address })}
              placeholder="https://mcp.example.com/mcp"
              hint="Slipway reads the authorization server and its endpoints from there."
              fault={faultAt(faults, 'mcp_server_url')}
            />
            <div class={styles.pair}>
              <TextField
                label="Name"
                value={draft.name ?? suggestName(body.provider_id)}
                onChange={name => set({ name })}
                hint="Shown to people who connect."
                fault={faultAt(faults, 'name')}
              />
              <TextField
                label="Id"
                mono
                value={body.provider_id}
                onChange={id => set({ id })}
                hint="In addresses and requests. It cannot be changed."
                fault={faultAt(faults, 'provider_id')}
              />
            </div>
            <details class={styles.more} open={needsClient || undefined}>
              <summary>Client and scopes</summary>
              <div class={styles.inside}>
                <TextField
                  label="Client id"
                  mono
                  value={draft.clientId}
                  onChange={clientId => set({ clientId })}
                  hint={
                    <>
                      Only if you have registered a client at the server, with the redirect URI{' '}
                      <code>{redirectUri}</code>
                      <CopyButton text={() => redirectUri} label="Copy the redirect URI" />
                    </>
                  }
                  fault={faultAt(faults, 'client_id')}
                />
                <SecretField
                  label="Client secret"
                  value={draft.clientSecret}
                  onChange={clientSecret => set({ clientSecret })}
                  fault={faultAt(faults, 'client_secret')}
                />
                {!draft.clientId && (
                  <SelectField
                    label="Client registration"
                    value={draft.registration}
                    onChange={registration => set({ registration: registration as Draft['registration'] })}
                    options={[
                      { value: 'auto', label: 'The first way that the server supports' },
                      { value: 'metadata_document', label: 'A client-ID metadata document' },
                      { value: 'dynamic', label: 'Dynamic registration' },
                    ]}
                    fault={faultAt(faults, 'registration')}
                  />
                )}
                <TextField
                  label="Scopes"
                  mono
                  value={draft.scopes}
                  onChange={scopes => set({ scopes })}
                  hint="By default the scopes that the server lists. Separated by spaces."
                  fault={faultAt(faults, 'scopes')}
                />
              </div>
            </details>
          </Form>
        </Card>
        {result && <Outcome result={result} isCurrent={isCurrent} />}
      </Stack>
    </>
  )
}

function Outcome({ result: { body, preview, error }, isCurrent }: { result: Result; isCurrent: boolean }) {
  const trace = preview?.trace ?? (error instanceof ApiError ? (error.trace as Fetched[]) : [])
  const remedy = error instanceof ApiError ? REMEDIES[error.code] : undefined
  return (
    <>
      {trace.length > 0 && (
        <Card
          title={
            <Marked shape={error ? 'octagon' : 'check'} tone={error ? 'bad' : 'ok'}>
              {error ? 'The discovery stopped' : 'The discovery is complete'}
            </Marked>
          }
          tone={error ? 'bad' : undefined}
          aside={`${trace.length} ${trace.length === 1 ? 'request' : 'requests'}`}
        >
          <Trace trace={trace} hasFailed={error !== undefined} {...(preview && { next: NEXT[preview.registration] })} />
        </Card>
      )}
      {error && (
        <>
          <Problem error={error} />
          {remedy && (
            <Card title="What to do">
              <Body>
                <Note>{remedy}</Note>
                {HELPED_BY_HAND.includes((error as ApiError).code) && (
                  <p>
                    <ButtonLink href={toAddress(NEW_BY_HAND)}>Create the provider by hand</ButtonLink>
                  </p>
                )}
              </Body>
            </Card>
          )}
        </>
      )}
      {preview && <Found preview={preview} body={body} isCurrent={isCurrent} />}
    </>
  )
}

function Found({ preview, body, isCurrent }: { preview: Preview; body: DiscoveryBody; isCurrent: boolean }) {
  const [, navigate] = useLocation()
  const { metadata, registration, redirect_uri, warnings } = preview
  const action = createDiscovered(body)
  return (
    <>
      {warnings.length > 0 && (
        <Card title="Warnings" tone="warn" aside="The provider can still be used">
          <div class={styles.warnings}>
            <Warnings warnings={warnings} />
          </div>
        </Card>
      )}
      <Card title={`Preview: ${preview.name}`}>
        <Body>
          <Facts
            facts={[
              ['Authorization server', metadata.issuer],
              ['People sign in at', <code>{metadata.auth_url}</code>],
              ['Tokens come from', <code>{metadata.token_url}</code>],
              [
                'Tokens are revoked',
                metadata.revocation_url ? <code>{metadata.revocation_url}</code> : 'Not supported',
              ],
              ['Scopes', metadata.scopes.length > 0 ? <code>{metadata.scopes.join(' ')}</code> : 'None requested'],
              ['PKCE', metadata.uses_pkce ? 'S256' : 'Not used'],
              ['Client', REGISTRATIONS[registration]],
              [
                'Redirect URI',
                redirect_uri && (
                  <>
                    <code>{redirect_uri}</code>
                    <CopyButton text={() => redirect_uri} label="Copy the redirect URI" />
                  </>
                ),
              ],
            ]}
          />
          {registration === 'given' && <Note>Register the redirect URI at the server. Otherwise sign-ins fail.</Note>}
          {isCurrent ? (
            <p>
              <ActionButton
                action={action}
                look="primary"
                onDone={() => navigate(toAddress(`/providers/${body.provider_id}`))}
              />
            </p>
          ) : (
            <Note>The form has changed. Discover again before you create the provider.</Note>
          )}
        </Body>
      </Card>
    </>
  )
}
