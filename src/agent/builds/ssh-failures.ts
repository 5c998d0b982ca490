// Tells by what ssh and git printed why a repository cannot be read by SSH (pure).
import type { SshProblemCode } from '../../protocol/repository-looks.schema.ts'

/** In this order: a host that refuses also hangs up. */
const WORDS: [SshProblemCode, string[]][] = [
  ['host_key_changed', ['host key verification failed', 'no matching host key type found']],
  [
    'repository_missing',
    [
      ...[
        'does not appear to be a git repository',
        'repository not found',
        'no such repository',
        'not a git repository',
      ],
      ...['project not found', 'project you were looking for could not be found', 'does not exist'],
      ...['no such file or directory', 'cannot find repository', 'repository does not exist'],
    ],
  ],
  [
    'key_refused',
    ['permission denied', 'too many authentication failures', 'no supported authentication methods', 'access denied'],
  ],
  [
    'host_away',
    [
      ...['connection refused', 'connection timed out', 'connection reset', 'connection closed', 'operation timed out'],
      ...['no route to host', 'network is unreachable', 'could not resolve hostname', 'banner exchange'],
      ...['kex_exchange_identification', 'broken pipe', 'timeout, server', 'not responding', 'early eof'],
      ...[
        'hung up unexpectedly',
        'unexpected disconnect',
        'client_loop',
        'exceeded maxstartups',
        'not allowed at this time',
      ],
    ],
  ],
]

export function classifySshFailure(output: string): SshProblemCode | null {
  const lower = output.toLowerCase()
  return WORDS.find(([, words]) => words.some(word => lower.includes(word)))?.[0] ?? null
}

const SENTENCES: Record<Exclude<SshProblemCode, 'unreadable' | 'address_refused'>, (url: string) => string> = {
  host_key_changed: url =>
    `The host of ${url} shows another host key than the pinned one. Somebody else may answer in its place. If its ` +
    'operator confirms the key, accept it at the integration.',
  key_refused: url =>
    `The host of ${url} refuses the deploy key. Add the \`public_key\` of the integration to the repository at its ` +
    'host, with the right to read, and deploy again.',
  repository_missing: url => `The host of ${url} has no such repository, or the deploy key may not read it.`,
  host_away: url => `The host of ${url} does not answer.`,
}

export const describeSshProblem = (code: keyof typeof SENTENCES, url: string): string => SENTENCES[code](url)
