// The deploy keys and pinned host keys of a repository by SSH, and what an agent's look changes of them (pure, but for
// making keys). The private keys are sealed with the other credentials.
import { createDeployKey, fingerprintOf } from '../../kernel/crypto/openssh-key.ts'
import { fail } from '../../kernel/http/errors.ts'
import type { SeenRepository, SshKeys } from '../../protocol/repository-looks.schema.ts'
import type { Credentials } from './credentials.ts'
import type * as schema from './schema.ts'
import type { IntegrationProblem, SshAccess } from './tables.ts'

const COMMENT = 'slipway'
type Keys = Pick<Credentials, 'deploy_keys'>

export async function createSshAccess(host_keys: string[]): Promise<{ ssh: SshAccess; deploy_keys: string[] }> {
  const { private_key, public_key, fingerprint } = await createDeployKey(COMMENT)
  const ssh = { keys: [{ public_key, fingerprint }], host_keys, refused_host_key: null, verified_at: null }
  return { ssh, deploy_keys: [private_key] }
}

/** The old key stays in use until the host has accepted the new one. A second new key takes the place of the first. */
export async function addDeployKey(ssh: SshAccess, { deploy_keys = [] }: Keys) {
  const { private_key, public_key, fingerprint } = await createDeployKey(COMMENT)
  return {
    ssh: { ...ssh, keys: [ssh.keys[0]!, { public_key, fingerprint }] },
    deploy_keys: [deploy_keys[0]!, private_key],
  }
}

/** The person names the key, so that they accept the one that they have seen. */
export function acceptHostKey(ssh: SshAccess, fingerprint: string): SshAccess {
  if (ssh.refused_host_key === null || fingerprintOf(ssh.refused_host_key) !== fingerprint)
    throw fail('host_key_unknown')
  return { ...ssh, host_keys: [ssh.refused_host_key], refused_host_key: null }
}

/** The keys for an agent: the newest first, so that it is noticed once the host accepts it. */
export const sshKeysOf = (ssh: SshAccess, { deploy_keys = [] }: Keys): SshKeys => ({
  keys: ssh.keys.map(({ fingerprint }, i) => ({ private_key: deploy_keys[i]!, fingerprint })).reverse(),
  host_keys: ssh.host_keys,
})

/** The integration after a look. `drops`: the first deploy key is not needed any more. */
export function applyLook(
  { ssh, problem }: { ssh: SshAccess; problem: IntegrationProblem | null },
  { host_key, key_fingerprint, problem: fault }: Pick<SeenRepository, 'host_key' | 'key_fingerprint' | 'problem'>,
  now: string,
): { ssh: SshAccess; problem: IntegrationProblem | null; drops: boolean } {
  const isPinned = ssh.host_keys.length > 0
  const isRefused = fault?.code === 'host_key_changed' && host_key != null && !ssh.host_keys.includes(host_key)
  const drops = fault == null && ssh.keys.length > 1 && key_fingerprint === ssh.keys[1]!.fingerprint
  return {
    ssh: {
      keys: drops ? ssh.keys.slice(1) : ssh.keys,
      // Pinned as soon as it is seen: a host that refuses the key must not be another one the next time.
      host_keys: !isPinned && host_key != null ? [host_key] : ssh.host_keys,
      refused_host_key: isRefused ? host_key : fault == null ? null : ssh.refused_host_key,
      verified_at: fault == null ? (ssh.verified_at ?? now) : ssh.verified_at,
    },
    problem: problemAfter(problem, fault, now),
    drops,
  }
}

/** A host that is away says nothing of the integration. */
function problemAfter(before: IntegrationProblem | null, fault: SeenRepository['problem'], now: string) {
  if (fault == null) return null
  if (fault.code === 'host_away') return before
  const isSame = before?.code === fault.code && before.message === fault.message
  return isSame ? before : ({ code: fault.code, work: 'repository', message: fault.message, since: now } as const)
}

export const sshToWire = ({ keys, host_keys, refused_host_key, verified_at }: SshAccess): schema.IntegrationSsh => {
  const show = (index: number) => (keys[index] ? `${keys[index].public_key} ${COMMENT}` : null)
  return {
    state: verified_at === null ? 'unverified' : 'verified',
    public_key: show(0)!,
    next_public_key: show(1),
    host_keys: host_keys.map(fingerprintWithType),
    refused_host_key: refused_host_key === null ? null : fingerprintWithType(refused_host_key),
  }
}
const fingerprintWithType = (key: string): schema.HostKeyShown => ({
  type: key.split(' ')[0]!,
  fingerprint: fingerprintOf(key) ?? '',
})
