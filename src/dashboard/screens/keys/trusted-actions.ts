// What can be done with trusted issuers, each as one request.
import { type Action, request } from '../../api/actions.ts'
import type { Item, Me } from '../../api/client.ts'
import { explainMissing } from '../../api/permissions.ts'

export type TrustedIssuer = Item<'GET /v2/trusted-issuers'>
type Caller = { me: Me; workspace: string }

export type TrustedDraft = { name: string; issuer: string; subject: string; audience: string; role_id: string }

export function createTrustedIssuer({ me, workspace }: Caller, { audience, ...draft }: TrustedDraft): Action {
  return {
    label: 'Trust issuer',
    unavailable: explainMissing(me, workspace, 'api-keys:create'),
    request: request('POST /v2/trusted-issuers', { body: { ...draft, ...(audience && { audience }) } as never }),
    done: `Tokens of ${draft.name} are exchanged for keys from now on.`,
  }
}

export function deleteTrustedIssuer({ me, workspace }: Caller, { id, name }: TrustedIssuer): Action {
  return {
    label: 'Delete trusted issuer',
    unavailable: explainMissing(me, workspace, 'api-keys:delete'),
    request: request('DELETE /v2/trusted-issuers/{trusted_issuer_id}', { params: { trusted_issuer_id: id } }),
    confirm: {
      title: `Delete “${name}”?`,
      body:
        'Its tokens are no longer exchanged, and the keys that jobs have now are revoked at once: what they deploy ' +
        'continues, and they cannot follow it. What was done with the keys stays in the audit log.',
      isDestructive: true,
    },
    done: `“${name}” is no longer trusted.`,
  }
}
