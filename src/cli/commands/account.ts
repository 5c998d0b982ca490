// `login` and `logout`: the key that is kept on this machine.
import { usageError } from '../failure.ts'
import { createOutput } from '../output.ts'
import { readHidden, readStdin } from '../secret-input.ts'
import { type GlobalOptions, openSession } from '../session.ts'
import { removeLogin, storeLogin } from '../settings.ts'

type LoginOptions = GlobalOptions & { url?: string; workspace?: string; keyStdin?: boolean }

/** Stores a key only after the installation has accepted it. */
export async function logIn(options: LoginOptions, signal: AbortSignal): Promise<void> {
  const url = options.url ?? process.env.SLIPWAY_URL
  if (!url || !URL.canParse(url)) throw usageError('Give the address of the installation.', 'slipway login --url URL')
  const isHidden = !options.keyStdin && process.stdin.isTTY === true
  if (!isHidden && !options.keyStdin) throw usageError('Without a terminal, send the key to --key-stdin.')
  const key = (isHidden ? await readHidden('API key: ') : await readStdin()).trim()
  const login = { url: url.replace(/\/$/, ''), key, ...(options.workspace && { workspace: options.workspace }) }
  const session = openSession(options, signal, { ...login, from: 'login' })
  const { display_name } = await session.client.call('GET /orgs/current/info', { signal })
  const file = storeLogin(login)
  session.out.emit(
    { type: 'result', outcome: 'signed_in', url: login.url, file },
    () => `Signed in to ${display_name}.`,
  )
}

export function logOut(options: GlobalOptions): void {
  const wasStored = removeLogin()
  createOutput({ json: options.json === true }).emit(
    { type: 'result', outcome: 'signed_out', was_stored: wasStored },
    () => (wasStored ? 'Removed the key from this machine. It stays valid until it is revoked.' : 'No key was stored.'),
  )
}
