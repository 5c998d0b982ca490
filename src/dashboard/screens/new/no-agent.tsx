// Warns if no agent would run a deployment.
import { ButtonLink } from '../../parts/button.tsx'
import { toAddress } from '../../router/links.tsx'
import { useListeners, useTemplates } from './agents.ts'
import styles from './new.module.css'

export function NoAgent({ workspace }: { workspace: string }) {
  const templates = useTemplates(workspace).data
  const listeners = useListeners(workspace).data
  if (!templates || !listeners) return null
  if (templates.resources.length > 0 || listeners.resources.some(({ last_seen_at }) => last_seen_at)) return null
  const has = listeners.resources.length > 0
  return (
    <div class={styles.note}>
      <p>
        {has
          ? 'No agent of your listeners has connected yet.'
          : 'This workspace has no listener, and the platform offers no template.'}{' '}
        Deployments wait until an agent is available.
      </p>
      <ButtonLink href={toAddress('/listeners')}>{has ? 'Start an agent' : 'Connect a machine or cluster'}</ButtonLink>
    </div>
  )
}
