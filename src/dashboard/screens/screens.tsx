// Every screen but the first: its address below the workspace, and its code, which loads when it is opened. This table
// loads after the first screen.
import type { ComponentType } from 'preact'
import { Route, Switch } from 'wouter-preact'
import type { Me } from '../api/client.ts'
import { explainMissing, type Permission } from '../api/permissions.ts'
import { ButtonLink } from '../parts/button.tsx'
import { lazily, type Module } from '../parts/lazily.tsx'
import { Empty, Skeleton } from '../parts/panel.tsx'
import { useCrumbs } from '../router/crumbs.ts'
import { toAddress } from '../router/links.tsx'
import { HOME, OPENED_BY_KEYS } from './menu.ts'
import type { ScreenProps } from './screen-props.ts'

/** The first that matches an address is shown. */
const LOADERS: [path: string, load: () => Promise<Module<ScreenProps<never>>>][] = [
  ['/new', () => import('./new/new.tsx')],
  ['/new/:deployment', () => import('./new/first.tsx')],
  ['/queue', () => import('./queue/queue.tsx')],
  ['/deployments/:deployment/logs', () => import('./logs/page.tsx')],
  ['/deployments/:deployment/logs/archive', () => import('./logs/archive.tsx')],
  ['/deployments/:deployment/traces', () => import('./traces/deployment-traces.tsx')],
  ['/deployments/:deployment/requests', () => import('./deployments/requests.tsx')],
  ['/deployments/:deployment/metrics', () => import('./deployments/metrics.tsx')],
  ['/deployments/:deployment', () => import('./deployments/deployment.tsx')],
  ['/deployments/:deployment/jobs', () => import('./jobs/deployment-jobs.tsx')],
  ['/deployments/:deployment/graphs', () => import('./graphs/deployment-graphs.tsx')],
  ['/logs', () => import('./logs/search.tsx')],
  ['/logs/archive', () => import('./logs/archive-settings.tsx')],
  ['/previews', () => import('./previews/previews.tsx')],
  ['/deployments/:deployment/previews', () => import('./previews/deployment-previews.tsx')],
  ['/history', () => import('./history/history.tsx')],
  ['/deployments/:deployment/history', () => import('./history/deployment-history.tsx')],
  ['/deployments/:deployment/environment', () => import('./deployments/environment.tsx')],
  ['/deployments/:deployment/settings', () => import('./deployments/settings.tsx')],
  ['/deployments/:deployment/compare', () => import('./deployments/compare.tsx')],
  ['/deployments/:deployment/revisions/:number', () => import('./deployments/revision.tsx')],
  ['/traces', () => import('./traces/projects.tsx')],
  ['/traces/run/:run', () => import('./traces/run-place.tsx')],
  ['/traces/:project', () => import('./traces/project.tsx')],
  ['/traces/:project/charts', () => import('./traces/charts.tsx')],
  ['/traces/:project/threads', () => import('./traces/threads.tsx')],
  ['/traces/:project/feedback', () => import('./traces/feedback.tsx')],
  ['/traces/:project/insights', () => import('./insights/project-insights.tsx')],
  ['/traces/:project/insights/:job', () => import('./insights/job.tsx')],
  ['/traces/:project/:trace', () => import('./traces/trace.tsx')],
  ['/datasets', () => import('./datasets/list.tsx')],
  ['/datasets/new', () => import('./datasets/new.tsx')],
  ['/datasets/:dataset', () => import('./datasets/dataset.tsx')],
  ['/annotation', () => import('./annotation/list.tsx')],
  ['/annotation/new', () => import('./annotation/new.tsx')],
  ['/annotation/:queue', () => import('./annotation/queue.tsx')],
  ['/alerts', () => import('./alerts/list.tsx')],
  ['/alerts/rules', () => import('./alerts/rules.tsx')],
  ['/alerts/rules/new', () => import('./alerts/new-rule.tsx')],
  ['/alerts/rules/:rule', () => import('./alerts/rule.tsx')],
  ['/alerts/mutes', () => import('./alerts/mutes.tsx')],
  ['/alerts/mutes/new', () => import('./alerts/new-mute.tsx')],
  ['/alerts/:incident', () => import('./alerts/incident.tsx')],
  ['/rules', () => import('./rules/list.tsx')],
  ['/rules/new', () => import('./rules/new.tsx')],
  ['/rules/:rule', () => import('./rules/rule.tsx')],
  ['/listeners', () => import('./listeners/list.tsx')],
  ['/listeners/new', () => import('./listeners/new.tsx')],
  ['/listeners/:listener', () => import('./listeners/listener.tsx')],
  ['/providers', () => import('./providers/list.tsx')],
  ['/providers/new/discovery', () => import('./providers/discover.tsx')],
  ['/providers/new/by-hand', () => import('./providers/by-hand.tsx')],
  ['/providers/:provider', () => import('./providers/provider.tsx')],
  ['/integrations', () => import('./integrations/list.tsx')],
  ['/integrations/new', () => import('./integrations/new.tsx')],
  ['/integrations/:integration', () => import('./integrations/integration.tsx')],
  ['/channels', () => import('./channels/list.tsx')],
  ['/channels/new', () => import('./channels/new.tsx')],
  ['/channels/:channel', () => import('./channels/channel.tsx')],
  ['/drains', () => import('./drains/list.tsx')],
  ['/drains/new', () => import('./drains/new.tsx')],
  ['/drains/:drain', () => import('./drains/drain.tsx')],
  ['/webhooks', () => import('./webhooks/list.tsx')],
  ['/webhooks/new', () => import('./webhooks/new.tsx')],
  ['/webhooks/:webhook', () => import('./webhooks/webhook.tsx')],
  ['/models', () => import('./models/list.tsx')],
  ['/models/new', () => import('./models/new.tsx')],
  ['/models/usage', () => import('./models/usage.tsx')],
  ['/models/settings', () => import('./models/settings.tsx')],
  ['/models/:model', () => import('./models/model.tsx')],
  ['/fleet', () => import('./fleet/fleet.tsx')],
  ['/audit', () => import('./audit/list.tsx')],
  ['/members', () => import('./members/list.tsx')],
  ['/members/new', () => import('./members/new.tsx')],
  ['/members/:member', () => import('./members/member.tsx')],
  ['/roles', () => import('./roles/list.tsx')],
  ['/roles/new', () => import('./roles/new.tsx')],
  ['/roles/:role', () => import('./roles/role.tsx')],
  ['/keys', () => import('./keys/list.tsx')],
  ['/keys/new', () => import('./keys/new.tsx')],
  ['/keys/trusted', () => import('./keys/trusted-list.tsx')],
  ['/keys/trusted/new', () => import('./keys/new-trusted.tsx')],
  ['/keys/trusted/:trusted', () => import('./keys/trusted.tsx')],
  ['/keys/:key', () => import('./keys/key.tsx')],
  ['/settings', () => import('./settings/workspace.tsx')],
  ['/settings/new-workspace', () => import('./settings/new-workspace.tsx')],
  ['/account', () => import('./settings/account.tsx')],
]

/** The permission for a list and the pages of its items. The audit log checks its own. */
const NEEDED: [path: string, permission: Permission, things: string][] = [
  ['/traces', 'projects:read', 'traces'],
  ['/datasets', 'datasets:read', 'datasets'],
  ['/annotation', 'annotation-queues:read', 'annotation queues'],
  ['/alerts', 'alerts:read', 'alerts'],
  ['/rules', 'rules:read', 'rules'],
  ['/listeners', 'listeners:read', 'listeners'],
  ['/channels', 'channels:read', 'channels'],
  ['/drains', 'drains:read', 'drains'],
  ['/webhooks', 'webhooks:read', 'webhooks'],
  ['/models', 'models:read', 'models'],
  ['/keys', 'api-keys:read', 'keys'],
]

const SCREENS = LOADERS.map(([path, load]) => ({
  path,
  Content: lazily(load, <Skeleton lines={8} />) as unknown as ComponentType<ScreenProps>,
}))

export default function Screens({ workspace, me }: { workspace: string; me: Me }) {
  return (
    <Switch>
      {SCREENS.map(({ path, Content }) => (
        <Route key={path} path={`/ui/:workspace${path}`}>
          {(params: Record<string, string>) => {
            const needed = NEEDED.find(([list]) => path === list || path.startsWith(`${list}/:`))
            const isForOrganization = needed?.[0] === '/keys' && me.permissions.includes('organization:manage-keys')
            const missing = needed && !isForOrganization && explainMissing(me, workspace, needed[1])
            return missing ? (
              <Unreadable path={needed[0]} things={needed[2]} reason={missing} />
            ) : (
              <Content workspace={workspace} params={params} me={me} />
            )
          }}
        </Route>
      ))}
      <Route>
        <Empty title="Page not found" action={<ButtonLink href={toAddress(HOME)}>Open the deployments</ButtonLink>}>
          The address may be mistyped or outdated.
        </Empty>
      </Route>
    </Switch>
  )
}

type UnreadableProps = { path: string; things: string; reason: string }
function Unreadable({ path, things, reason }: UnreadableProps) {
  useCrumbs({ label: OPENED_BY_KEYS.find(screen => screen.path === path)!.label })
  return (
    <Empty
      title={`Your role cannot read the ${things}`}
      action={<ButtonLink href={toAddress('/roles')}>Open the roles</ButtonLink>}
    >
      {reason}
    </Empty>
  )
}
