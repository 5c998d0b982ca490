// Reads the caller and the workspace, then shows the screen of the address.
import { QueryClientProvider } from '@tanstack/preact-query'
import { useEffect, useErrorBoundary, useState } from 'preact/hooks'
import { Redirect, Route, Switch, useLocation, useSearch } from 'wouter-preact'
import {
  caller,
  currentPath,
  type Me,
  meVersion,
  readMe,
  sessionEnded,
  signInAddress,
  workspaceId,
} from './api/client.ts'
import { queryClient } from './api/queries.ts'
import { Shell } from './layout/shell.tsx'
import { ButtonLink } from './parts/button.tsx'
import { lazily } from './parts/lazily.tsx'
import { Empty, Skeleton } from './parts/panel.tsx'
import { Problem } from './parts/problem.tsx'
import { readLastWorkspace, storeLastWorkspace, toAddress } from './router/links.tsx'
import DeploymentList from './screens/deployments/list.tsx'
import { OpenedPlan } from './screens/deployments/opened-plan.tsx'
import { HOME } from './screens/menu.ts'

const SessionEnded = lazily(() => import('./layout/session-ended.tsx'))
const Screens = lazily(() => import('./screens/screens.tsx'), <Skeleton lines={8} />)

/** Reload if another person signs in in another tab: nothing of the previous person may stay. */
const CALLER_KEY = 'slipway-caller'
const callerOf = ({ member, api_key }: Me): string => String((member ?? api_key)?.id)
addEventListener('storage', ({ key }) => key === CALLER_KEY && meVersion.value++)

export function App() {
  const [me, setMe] = useState<Me>()
  const [error, setError] = useState<Error>()
  useErrorBoundary(setError)
  useEffect(() => {
    readMe().then(
      found => {
        if (!found) {
          if (me) sessionEnded.value = true
          else location.replace(signInAddress(currentPath()))
        } else if (me && callerOf(found) !== callerOf(me)) location.reload()
        else {
          caller.value = found
          setMe(found)
          localStorage.setItem(CALLER_KEY, callerOf(found))
        }
      },
      failed => me || setError(failed),
    )
  }, [meVersion.value])
  // Load the other screens while the list of deployments is read, or at once for another screen. Opening one reports a
  // failure.
  useEffect(() => {
    if (me || !location.pathname.endsWith(HOME)) Screens.preload().catch(() => {})
  }, [me])
  if (error) return <Problem error={error} onRetry={() => location.reload()} />
  return me ? (
    <QueryClientProvider client={queryClient}>
      <Workspaces me={me} />
      {sessionEnded.value && <SessionEnded />}
    </QueryClientProvider>
  ) : (
    <Skeleton lines={8} />
  )
}

const WORKSPACE_PATH = /^\/ui\/([0-9a-f]{8}-[0-9a-f-]{27})(?=\/|$)/

/** A path without a workspace leads to the same screen in the last one. */
function Workspaces({ me }: { me: Me }) {
  const [path] = useLocation()
  const search = useSearch()
  const [prefix, id] = WORKSPACE_PATH.exec(path) ?? []
  const workspace = me.workspaces.find(one => one.id === id)
  if (workspace && workspace.id !== workspaceId.peek()) workspaceId.value = workspace.id
  useEffect(() => {
    if (workspace) storeLastWorkspace(workspace.id)
  }, [workspace?.id])
  const last = readLastWorkspace()
  const home = me.workspaces.find(one => one.id === last) ?? me.workspaces[0]
  if (!home)
    return (
      <Empty title="You are not a member of a workspace">
        Ask an Admin of {me.organization.display_name} to add you to one, then reload this page.
      </Empty>
    )
  if (!workspace && id)
    return (
      <Empty
        title="You are not a member of this workspace"
        action={<ButtonLink href={toAddress(HOME, home.id)}>Open {home.display_name}</ButtonLink>}
      >
        Ask an Admin of the workspace to add you, or open another workspace.
      </Empty>
    )
  const rest = path.slice((prefix ?? '/ui').length)
  if (!workspace || rest === '' || rest === '/') {
    const target = rest === '' || rest === '/' ? HOME : rest
    return <Redirect to={toAddress(target, (workspace ?? home).id) + (search && `?${search}`)} replace />
  }
  return (
    <Shell me={me} workspace={workspace} key={workspace.id}>
      <OpenedPlan workspace={workspace.id} />
      <Switch>
        <Route path={`/ui/:workspace${HOME}`}>
          <DeploymentList workspace={workspace.id} params={{}} me={me} />
        </Route>
        <Route>
          <Screens workspace={workspace.id} me={me} />
        </Route>
      </Switch>
    </Shell>
  )
}
