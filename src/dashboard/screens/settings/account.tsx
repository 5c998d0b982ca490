// The signed-in person: who one is here, one's sessions, and what is chosen for this browser.
import { useQuery } from '@tanstack/preact-query'
import { getClient } from '../../api/client.ts'
import { usePages } from '../../api/queries.ts'
import { readAgain } from '../../api/read-again.ts'
import { setShortcuts, shortcutsOn } from '../../commands/commands.ts'
import { formatExact } from '../../format/time.ts'
import { ActionButton } from '../../parts/action.tsx'
import { Card } from '../../parts/card.tsx'
import { PageHead, Stack } from '../../parts/page.tsx'
import { Skeleton } from '../../parts/panel.tsx'
import { isUtc, setTheme, setUtc, THEMES, theme } from '../../parts/preferences.ts'
import { Problem } from '../../parts/problem.tsx'
import { Body, Facts } from '../../parts/sections.tsx'
import { Badge } from '../../parts/state.tsx'
import { Ago } from '../../parts/time.tsx'
import { useCrumbs } from '../../router/crumbs.ts'
import { Link } from '../../router/links.tsx'
import { useRoles } from '../members/use-roles.ts'
import { PermissionList } from '../roles/permission-list.tsx'
import type { ScreenProps } from '../screen-props.ts'
import { endSession, type Session } from './actions.ts'
import styles from './settings.module.css'
import { describeUserAgent } from './user-agent.ts'

const METHODS: Record<Session['method'], string> = {
  key: 'with an API key',
  link: 'by a link',
  oidc: 'with the identity provider',
}
/** A request in another browser has no event. */
const READ_EVERY_MS = 60_000
const THEME_WORDS = { system: 'System', light: 'Light', dark: 'Dark' }

async function readVersion({ signal }: { signal: AbortSignal }): Promise<string> {
  const { reply } = await getClient().send({ method: 'GET', path: '/healthz', signal })
  return (reply as { version: string }).version
}

export default function Account({ workspace, me }: ScreenProps) {
  useCrumbs({ label: 'Your account' })
  const roles = useRoles(workspace)
  const here = me.workspaces.find(({ id }) => id === workspace)
  const { items, error, refetch } = usePages(
    workspace,
    'GET /v2/me/sessions',
    { query: { limit: 100 } },
    { everyMs: READ_EVERY_MS },
  )
  const { data: version } = useQuery({ queryKey: ['version'], queryFn: readVersion })
  const { member, api_key: key } = me
  return (
    <Stack>
      <PageHead
        title={member ? (member.full_name ?? member.email) : `Key “${key?.description}”`}
        meta={[member ? member.full_name && member.email : key?.hint, me.organization.display_name]}
      />
      <Card title="Sessions" aside={items && `${items.length}`}>
        {error && !items && <Problem error={error} onRetry={() => void refetch()} />}
        {!items && !error && <Skeleton lines={3} />}
        {items?.map(session => {
          const name = describeUserAgent(session.user_agent)
          return (
            <div key={session.id} class={styles.session}>
              <div>
                <p>
                  <b title={session.user_agent ?? undefined}>{name}</b>{' '}
                  {session.is_current && <Badge tone="ok">Current session</Badge>}
                </p>
                <p class={styles.hint}>
                  Signed in {METHODS[session.method]} <Ago time={session.created_at} suffix=" ago" /> from{' '}
                  {session.client_address ?? 'an unknown address'}. Last seen{' '}
                  <Ago time={session.last_seen_at} suffix=" ago" />. Ends{' '}
                  <time dateTime={session.expires_at}>{formatExact(session.expires_at)}</time>, or after seven idle
                  days.
                </p>
              </div>
              {!session.is_current && (
                <ActionButton
                  small
                  action={endSession(session, name)}
                  onDone={() => void readAgain('/v2/me/sessions')}
                />
              )}
            </div>
          )
        })}
      </Card>
      <Card title="This browser">
        <Body>
          <fieldset class={styles.themes}>
            <legend>Theme</legend>
            {THEMES.map(name => (
              <label key={name}>
                <input
                  type="radio"
                  name="account-theme"
                  checked={theme.value === name}
                  onChange={() => setTheme(name)}
                />
                {THEME_WORDS[name]}
              </label>
            ))}
          </fieldset>
          <fieldset class={styles.themes}>
            <legend>Times</legend>
            <label>
              <input type="radio" name="zone" checked={!isUtc.value} onChange={() => setUtc(false)} />
              My zone, {Intl.DateTimeFormat().resolvedOptions().timeZone}
            </label>
            <label>
              <input type="radio" name="zone" checked={isUtc.value} onChange={() => setUtc(true)} />
              UTC
            </label>
          </fieldset>
          <label class={styles.switch}>
            <input
              type="checkbox"
              checked={shortcutsOn.value}
              onChange={({ currentTarget }) => setShortcuts(currentTarget.checked)}
            />
            Single-key shortcuts
          </label>
        </Body>
      </Card>
      <Card title="Your permissions" aside={member && <Link to={`/members/${member.id}`}>Your member page</Link>}>
        <Body>
          <Facts
            facts={[
              [
                'This workspace',
                roles.all.length > 0 && (here?.role_id ? roles.nameOf(here.role_id) : key && roles.nameOf(key.role_id)),
              ],
              [`In ${me.organization.display_name}`, roles.all.length > 0 && member && roles.nameOf(member.role_id)],
            ]}
          />
          <PermissionList permissions={here?.permissions ?? me.permissions} />
        </Body>
      </Card>
      {version && <p class={styles.hint}>Slipway {version}</p>}
    </Stack>
  )
}
