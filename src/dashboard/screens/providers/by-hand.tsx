// Creates a provider for a client that a person has registered, and changes one.
import { useState } from 'preact/hooks'
import { useLocation } from 'wouter-preact'
import { faultAt, listFaults } from '../../api/faults.ts'
import { CopyAs, useAction } from '../../parts/action.tsx'
import { Button, ButtonLink } from '../../parts/button.tsx'
import { Card } from '../../parts/card.tsx'
import { CopyButton } from '../../parts/copy.tsx'
import { CheckField, SelectField, TextField } from '../../parts/form.tsx'
import { Form, SecretField } from '../../parts/form-frame.tsx'
import { PageHead } from '../../parts/page.tsx'
import { useCrumbs } from '../../router/crumbs.ts'
import { toAddress } from '../../router/links.tsx'
import { createByHand, type HandBody } from './actions.ts'
import { NEW_BY_DISCOVERY } from './list.tsx'

type Draft = {
  id: string
  name: string
  clientId: string
  clientSecret: string
  method: '' | NonNullable<HandBody['token_endpoint_auth_method']>
  authUrl: string
  tokenUrl: string
  revocationUrl: string
  scopes: string
  usesPkce: boolean
}
const EMPTY: Draft = {
  id: '',
  name: '',
  clientId: '',
  clientSecret: '',
  method: '',
  authUrl: '',
  tokenUrl: '',
  revocationUrl: '',
  scopes: '',
  usesPkce: true,
}
export const AUTH_METHODS = [
  { value: '', label: 'Default: in the body, or none without a secret' },
  { value: 'client_secret_post', label: 'Secret in the body (client_secret_post)' },
  { value: 'client_secret_basic', label: 'Secret in a header (client_secret_basic)' },
  { value: 'none', label: 'No secret (none)' },
]

const toBody = (draft: Draft): HandBody => ({
  provider_id: draft.id,
  name: draft.name,
  client_id: draft.clientId,
  ...(draft.clientSecret && { client_secret: draft.clientSecret }),
  ...(draft.method && { token_endpoint_auth_method: draft.method }),
  auth_url: draft.authUrl.trim(),
  token_url: draft.tokenUrl.trim(),
  ...(draft.revocationUrl && { revocation_url: draft.revocationUrl.trim() }),
  scopes: draft.scopes.split(/[\s,]+/).filter(Boolean),
  uses_pkce: draft.usesPkce,
})

export default function ProviderByHand() {
  useCrumbs({ label: 'Providers', to: '/providers' }, { label: 'Create by hand' })
  const [, navigate] = useLocation()
  const [draft, setDraft] = useState(EMPTY)
  const set = (part: Partial<Draft>) => setDraft(current => ({ ...current, ...part }))
  const { start, busy, error } = useAction({
    onDone: () => navigate(toAddress(`/providers/${draft.id}`)),
    showsError: true,
  })
  const action = createByHand(toBody(draft))
  const faults = listFaults(error)
  const redirectUri = `${location.origin}/v2/auth/callback/${draft.id || 'ID'}`
  return (
    <>
      <PageHead
        title="Create a provider by hand"
        actions={<ButtonLink href={toAddress(NEW_BY_DISCOVERY)}>Discover instead</ButtonLink>}
      />
      <Card title="Client">
        <Form
          error={error}
          label="Client"
          onSubmit={() => start(action)}
          footer={
            <>
              <Button type="submit" look="primary" busy={busy}>
                {action.label}
              </Button>
              <ButtonLink href={toAddress('/providers')}>Cancel</ButtonLink>
              <CopyAs action={action} />
            </>
          }
        >
          <TextField
            label="Name"
            value={draft.name}
            onChange={name => set({ name })}
            placeholder="GitHub"
            fault={faultAt(faults, 'name')}
          />
          <TextField
            label="Id"
            mono
            value={draft.id}
            onChange={id => set({ id })}
            placeholder="github"
            hint={
              <>
                It cannot be changed. First register a client at the server with the redirect URI{' '}
                <code>{redirectUri}</code>
                <CopyButton text={() => redirectUri} label="Copy the redirect URI" />
              </>
            }
            fault={faultAt(faults, 'provider_id')}
          />
          <TextField
            label="Client id"
            mono
            value={draft.clientId}
            onChange={clientId => set({ clientId })}
            fault={faultAt(faults, 'client_id')}
          />
          <SecretField
            label="Client secret"
            value={draft.clientSecret}
            onChange={clientSecret => set({ clientSecret })}
            fault={faultAt(faults, 'client_secret')}
          />
          <TextField
            label="Authorization endpoint"
            mono
            value={draft.authUrl}
            onChange={authUrl => set({ authUrl })}
            placeholder="https://github.com/login/oauth/authorize"
            fault={faultAt(faults, 'auth_url')}
          />
          <TextField
            label="Token endpoint"
            mono
            value={draft.tokenUrl}
            onChange={tokenUrl => set({ tokenUrl })}
            placeholder="https://github.com/login/oauth/access_token"
            fault={faultAt(faults, 'token_url')}
          />
          <TextField
            label="Revocation endpoint"
            mono
            value={draft.revocationUrl}
            onChange={revocationUrl => set({ revocationUrl })}
            hint="Leave it empty if the server has none. Tokens then stay valid until they expire."
            fault={faultAt(faults, 'revocation_url')}
          />
          <TextField
            label="Scopes"
            mono
            value={draft.scopes}
            onChange={scopes => set({ scopes })}
            placeholder="read:user"
            hint="The default scopes, separated by spaces."
            fault={faultAt(faults, 'scopes')}
          />
          <SelectField
            label="How the client authenticates"
            value={draft.method}
            onChange={method => set({ method: method as Draft['method'] })}
            options={AUTH_METHODS}
            fault={faultAt(faults, 'token_endpoint_auth_method')}
          />
          <CheckField
            label="Use PKCE (S256)"
            checked={draft.usesPkce}
            onChange={usesPkce => set({ usesPkce })}
            hint="Disable only if the server does not support PKCE."
          />
        </Form>
      </Card>
    </>
  )
}
