// Replaces the token or the private key of a git host whose old one the host refuses.
import { useState } from 'preact/hooks'
import { faultAt, listFaults } from '../../api/faults.ts'
import { CopyAs, useAction } from '../../parts/action.tsx'
import { Button } from '../../parts/button.tsx'
import { TextField } from '../../parts/form.tsx'
import { Form, SecretField } from '../../parts/form-frame.tsx'
import { replaceCredential } from './actions.ts'
import { type Integration, TOKEN_NEEDS } from './integration-state.ts'

type Props = { integration: Integration; missing: string | undefined }

export function ReplaceCredential({ integration, missing }: Props) {
  const [credential, setCredential] = useState('')
  const { start, busy, error } = useAction({ onDone: () => setCredential(''), showsError: true })
  const action = replaceCredential(integration, credential, missing)
  const faults = listFaults(error)
  return (
    <Form
      error={error}
      label="New credential"
      onSubmit={() => start(action)}
      footer={
        <>
          <Button type="submit" look="primary" busy={busy} title={missing}>
            {action.label}
          </Button>
          <CopyAs action={action} />
        </>
      }
    >
      {integration.host !== 'github' ? (
        <SecretField
          label="New access token"
          value={credential}
          onChange={setCredential}
          hint={`Of the account ${integration.name}, with ${TOKEN_NEEDS[integration.host]}.`}
          fault={faultAt(faults, 'token')}
        />
      ) : (
        <TextField
          label="New private key"
          mono
          rows={6}
          value={credential}
          onChange={setCredential}
          placeholder="-----BEGIN RSA PRIVATE KEY-----"
          hint="Of the same App. Stored encrypted."
          fault={faultAt(faults, 'private_key')}
        />
      )}
    </Form>
  )
}
