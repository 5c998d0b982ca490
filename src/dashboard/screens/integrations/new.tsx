// Connects a git host: by the operator's GitHub App, at GitHub and back, or by credentials of the workspace.
import { useState } from 'preact/hooks'
import { useLocation } from 'wouter-preact'
import type { Reply } from '../../api/client.ts'
import { faultAt, listFaults } from '../../api/faults.ts'
import { explainMissing } from '../../api/permissions.ts'
import { useRead } from '../../api/queries.ts'
import { CopyAs, useAction } from '../../parts/action.tsx'
import { Button, ButtonLink } from '../../parts/button.tsx'
import { Card } from '../../parts/card.tsx'
import { CopyButton } from '../../parts/copy.tsx'
import { TextField } from '../../parts/form.tsx'
import { Choices, Form, SecretField } from '../../parts/form-frame.tsx'
import { Glyph } from '../../parts/icon.tsx'
import { PageHead, Stack } from '../../parts/page.tsx'
import { Body, Note } from '../../parts/sections.tsx'
import { ShownOnce } from '../../parts/shown-once.tsx'
import { Ago } from '../../parts/time.tsx'
import { useCrumbs } from '../../router/crumbs.ts'
import { toAddress, useFilter } from '../../router/links.tsx'
import type { ScreenProps } from '../screen-props.ts'
import { type ConnectBody, connect, startInstall } from './actions.ts'
import styles from './integration.module.css'
import { type Integration, TOKEN_NEEDS } from './integration-state.ts'
import { DeployKeyLine } from './ssh-keys.tsx'
import { WebhookSetup } from './webhook-setup.tsx'

type Way = 'app' | Integration['host']
const WAYS: { value: Way; label: string; detail: string }[] = [
  {
    value: 'app',
    label: 'GitHub, with the app of this installation',
    detail: 'Choose the repositories at GitHub. No credentials are needed.',
  },
  {
    value: 'gitlab',
    label: 'GitLab, with an access token',
    detail: 'Also for self-managed GitLab. The token needs the scope api.',
  },
  {
    value: 'gitea',
    label: 'Gitea, with an access token',
    detail: 'The token needs the scopes read:user, write:repository and write:issue.',
  },
  {
    value: 'forgejo',
    label: 'Forgejo, with an access token',
    detail: 'Also for Codeberg. The token needs the same scopes.',
  },
  {
    value: 'git',
    label: 'Any git server, by the URL of a repository',
    detail:
      'By HTTPS, public or with a token, or by SSH with a deploy key. There are no previews of pull requests, and no commit statuses.',
  },
  {
    value: 'github',
    label: 'GitHub, with your own app',
    detail: 'Also for GitHub Enterprise Server. You need the app id, private key and installation id.',
  },
]

export default function ConnectGitHost({ workspace, me }: ScreenProps) {
  useCrumbs({ label: 'Git hosts', to: '/integrations' }, { label: 'Connect' })
  const [chosen, setWay] = useFilter('by')
  const way = WAYS.find(({ value }) => value === chosen)?.value ?? 'app'
  const missing = explainMissing(me, workspace, 'integrations:manage')
  return (
    <>
      <PageHead title="Connect a git host" />
      <Stack>
        <Card title="How">
          <Body>
            <Choices legend="Where are your repositories?" value={way} onChange={setWay} options={WAYS} />
          </Body>
        </Card>
        {way === 'app' ? (
          <InstallCard workspace={workspace} missing={missing} />
        ) : (
          <CredentialsCard key={way} host={way} missing={missing} />
        )}
      </Stack>
    </>
  )
}

/** The person continues at GitHub in another tab. This page shows the integration once it exists. */
function InstallCard({ workspace, missing }: { workspace: string; missing: string | undefined }) {
  const [installation, setInstallation] = useState('')
  const [install, setInstall] = useState<Reply<'POST /v1/integrations/forge/githost/install'>>()
  const { data: all } = useRead(workspace, 'GET /v1/integrations/forge/githost/install', {})
  const [before, setBefore] = useState<string[]>([])
  const { start, busy, error } = useAction({
    onDone: reply => {
      setBefore((all ?? []).map(({ id, updated_at }) => id + updated_at))
      setInstall(reply as Reply<'POST /v1/integrations/forge/githost/install'>)
    },
    showsError: true,
  })
  const arrived = install && all?.find(({ id, updated_at }) => !before.includes(id + updated_at))
  const action = startInstall(installation.trim(), missing)
  return (
    <Card title="Install the app">
      <Form
        error={error}
        label="Install the app"
        onSubmit={() => start(action)}
        footer={
          <>
            <Button type="submit" look={install ? 'default' : 'primary'} busy={busy} title={missing}>
              {action.label}
            </Button>
            <CopyAs action={action} />
          </>
        }
      >
        <TextField
          label="Installation id"
          mono
          inputMode="numeric"
          value={installation}
          onChange={setInstallation}
          hint="Only if the app is already installed: the number at the end of the URL of the installation at GitHub."
          fault={faultAt(listFaults(error), 'installation_id')}
        />
        {install && !arrived && (
          <div role="status" class={styles.status}>
            <p>
              <ButtonLink href={install.url} target="_blank" rel="noreferrer" look="primary" icon="out">
                Continue at GitHub
              </ButtonLink>
            </p>
            <Note>
              GitHub opens in another tab. This page shows the account once you have installed the app. The URL can be
              used once, within one hour.
            </Note>
          </div>
        )}
        {arrived && <Arrived integration={arrived} />}
      </Form>
    </Card>
  )
}

const Arrived = ({ integration: { id, name, updated_at } }: { integration: Integration }) => (
  <div role="status" class={styles.status}>
    <Note>
      <Glyph shape="check" tone="ok" /> {name} is connected, <Ago time={updated_at} suffix=" ago" />.
    </Note>
    <p>
      <ButtonLink href={toAddress(`/integrations/${id}`)} look="primary">
        Open {name}
      </ButtonLink>
    </p>
  </div>
)

const CARD_TITLES: Record<Integration['host'], string> = {
  github: 'Your GitHub app',
  gitlab: 'An account of GitLab',
  gitea: 'An account of Gitea',
  forgejo: 'An account of Forgejo',
  git: 'A repository at any git server',
}
const PLACEHOLDERS: Record<Integration['host'], string> = {
  github: 'https://github.com',
  gitlab: 'https://gitlab.com',
  gitea: 'https://git.example.com',
  forgejo: 'https://codeberg.org',
  git: 'https://git.example.com/acme/shop.git',
}
const ADDRESS_HINTS: Record<Integration['host'], string> = {
  github: 'Leave it empty for github.com.',
  gitlab: 'Leave it empty for gitlab.com.',
  gitea: 'The public URL of the host.',
  forgejo: 'The public URL of the host.',
  git: 'The URL from which git clones it, also ssh://git@host/path or git@host:path.',
}

const SSH = /^(ssh:\/\/|[\w.-]+@)/
const newSecret = (): string => crypto.randomUUID().replaceAll('-', '')

type CredentialsProps = { host: Integration['host']; missing: string | undefined }
function CredentialsCard({ host, missing }: CredentialsProps) {
  const [, navigate] = useLocation()
  const [secret] = useState(newSecret)
  const [connected, setConnected] = useState<Integration>()
  const [draft, setDraft] = useState({
    baseUrl: '',
    username: '',
    token: '',
    appId: '',
    installation: '',
    privateKey: '',
  })
  const set = (part: Partial<typeof draft>) => setDraft(current => ({ ...current, ...part }))
  const { start, busy, error } = useAction({
    onDone: reply => setConnected(reply as Integration),
    showsError: true,
  })
  const base = draft.baseUrl.trim()
  const isSsh = SSH.test(base)
  const body: ConnectBody =
    host !== 'github'
      ? {
          host,
          webhook_secret: secret,
          ...(base && { base_url: base }),
          ...(!isSsh && draft.token.trim() && { token: draft.token.trim() }),
          ...(!isSsh && draft.username.trim() && { username: draft.username.trim() }),
        }
      : {
          host,
          app_id: draft.appId.trim(),
          installation_id: draft.installation.trim(),
          private_key: draft.privateKey,
          webhook_secret: secret,
          ...(base && { base_url: base }),
        }
  const action = connect(body, missing)
  const faults = listFaults(error)
  if (connected)
    return (
      <Card title={`${connected.name} is connected`}>
        <Body>
          {connected.ssh && <DeployKeyLine ssh={connected.ssh} />}
          <WebhookSetup integration={connected} />
          <ShownOnce title="Copy the webhook secret now. It is not shown again" secret={secret}>
            Enter it as the secret of the webhook at the host. Deliveries without it are refused.
          </ShownOnce>
          <p>
            <Button look="primary" onClick={() => navigate(toAddress(`/integrations/${connected.id}`))}>
              Open {connected.name}
            </Button>
          </p>
        </Body>
      </Card>
    )
  return (
    <Card title={CARD_TITLES[host]}>
      <Form
        error={error}
        label="Credentials"
        onSubmit={() => start(action)}
        footer={
          <>
            <Button type="submit" look="primary" busy={busy} title={missing}>
              {action.label}
            </Button>
            <ButtonLink href={toAddress('/integrations')}>Cancel</ButtonLink>
            <CopyAs action={action} />
          </>
        }
      >
        <TextField
          label={host === 'git' ? 'URL of the repository' : 'Address of the host'}
          mono
          inputMode="url"
          value={draft.baseUrl}
          onChange={baseUrl => set({ baseUrl })}
          placeholder={PLACEHOLDERS[host]}
          hint={ADDRESS_HINTS[host]}
          fault={faultAt(faults, 'base_url')}
        />
        {host === 'git' && !isSsh && (
          <TextField
            label="User name"
            value={draft.username}
            onChange={username => set({ username })}
            hint="Leave it empty if the server looks at the token alone."
            fault={faultAt(faults, 'username')}
          />
        )}
        {isSsh ? (
          <Note>Slipway makes a deploy key. Its public key is shown after the repository is connected.</Note>
        ) : host !== 'github' ? (
          <SecretField
            label={host === 'git' ? 'Token or password' : 'Access token'}
            value={draft.token}
            onChange={token => set({ token })}
            hint={
              host === 'git'
                ? 'Leave it empty for a public repository.'
                : `With ${TOKEN_NEEDS[host]}. Stored encrypted.`
            }
            fault={faultAt(faults, 'token')}
          />
        ) : (
          <>
            <TextField
              label="App id"
              mono
              inputMode="numeric"
              value={draft.appId}
              onChange={appId => set({ appId })}
              fault={faultAt(faults, 'app_id')}
            />
            <TextField
              label="Installation id"
              mono
              inputMode="numeric"
              value={draft.installation}
              onChange={installation => set({ installation })}
              hint="The number at the end of the address of the installation at GitHub."
              fault={faultAt(faults, 'installation_id')}
            />
            <TextField
              label="Private key"
              mono
              rows={6}
              value={draft.privateKey}
              onChange={privateKey => set({ privateKey })}
              placeholder="-----BEGIN RSA PRIVATE KEY-----"
              hint="The content of the file from GitHub. Stored encrypted. It cannot be shown again."
              fault={faultAt(faults, 'private_key')}
            />
          </>
        )}
        <Note>
          Slipway created a webhook secret. It is shown after the host is connected.{' '}
          <CopyButton text={() => secret}>Copy it now</CopyButton>
        </Note>
      </Form>
    </Card>
  )
}
