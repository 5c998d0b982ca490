// The deploy key of a repository by SSH, the keys of its host, and how to replace them.
import { ActionButton } from '../../parts/action.tsx'
import { Card } from '../../parts/card.tsx'
import { CommandLine } from '../../parts/panel.tsx'
import { Body, Facts, Note } from '../../parts/sections.tsx'
import { acceptHostKey, newDeployKey } from './actions.ts'
import styles from './integration.module.css'
import type { Integration } from './integration-state.ts'

type Ssh = NonNullable<Integration['ssh']>

export const DeployKeyLine = ({ ssh }: { ssh: Ssh }) => (
  <>
    <Note>Add this public key to the repository at its host, as a deploy key that may read:</Note>
    <CommandLine command={ssh.public_key} />
  </>
)

const showKey = ({ type, fingerprint }: Ssh['host_keys'][number]) => (
  <>
    <code>{fingerprint}</code> {type}
  </>
)

type Props = { integration: Integration; ssh: Ssh; missing: string | undefined }
export const SshCard = ({ integration, ssh, missing }: Props) => {
  const { next_public_key, host_keys, refused_host_key } = ssh
  return (
    <Card title="SSH">
      <Body>
        <DeployKeyLine ssh={ssh} />
        {next_public_key !== null && (
          <>
            <Note>
              Add this one, too. It takes the place of the old one once the host has accepted it; then remove that:
            </Note>
            <CommandLine command={next_public_key} />
          </>
        )}
        <Facts
          facts={[
            ['State', ssh.state === 'verified' ? 'Verified' : 'Unverified: the first deployment makes an agent look'],
            ['Host key', host_keys.length > 0 ? host_keys.map(showKey) : 'Pinned when an agent sees it first'],
            ['Refused host key', refused_host_key && showKey(refused_host_key)],
          ]}
        />
        <p class={styles.keys}>
          {refused_host_key !== null && (
            <ActionButton action={acceptHostKey(integration, refused_host_key.fingerprint, missing)} />
          )}
          <ActionButton action={newDeployKey(integration, missing)} />
        </p>
      </Body>
    </Card>
  )
}
