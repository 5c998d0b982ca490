// The program's half of token exchange (RFC 8693): a token of a CI for a key of a workspace.
import { ConnectionError } from './errors.ts'
import { type FormOptions, postForm } from './oauth-form.ts'

export type ExchangedKey = { access_token: string; expires_in: number; workspace_id: string }

/** Throws an ApiError with the status 400 if the workspace does not accept the token. */
export async function exchangeToken(options: FormOptions, token: string, workspace: string): Promise<ExchangedKey> {
  const key = await postForm<ExchangedKey | null>(options, '/oauth/token', {
    grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange',
    subject_token_type: 'urn:ietf:params:oauth:token-type:jwt',
    subject_token: token,
    audience: workspace,
  })
  const { access_token, expires_in, workspace_id } = key ?? {}
  if (typeof access_token === 'string' && typeof expires_in === 'number' && typeof workspace_id === 'string')
    return { access_token, expires_in, workspace_id }
  throw new ConnectionError(`${options.url} answered without a key, which is no answer of Slipway. Check its address.`)
}
