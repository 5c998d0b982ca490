// Next steps after the first deployment of a workspace serves. They can be hidden for good.
import { useState } from 'preact/hooks'
import type { Me } from '../../api/client.ts'
import { explainMissing, type Permission } from '../../api/permissions.ts'
import { useRead } from '../../api/queries.ts'
import { Button } from '../../parts/button.tsx'
import { Card } from '../../parts/card.tsx'
import { Icon, type IconName } from '../../parts/icon.tsx'
import { Link } from '../../router/links.tsx'
import styles from './new.module.css'

const hiddenKey = (workspace: string) => `slipway-next-steps-${workspace}`

type Suggestion = { to: string; icon: IconName; label: string; detail: string; isOpen: boolean; needs: Permission }

export function NextSteps({ workspace, me }: { workspace: string; me: Me }) {
  const [isHidden, setHidden] = useState(() => localStorage.getItem(hiddenKey(workspace)) !== null)
  const enabled = { enabled: !isHidden }
  const hosts = useRead(workspace, 'GET /v1/integrations/forge/githost/install', {}, enabled).data
  const members = useRead(workspace, 'GET /workspaces/current/members', { query: { limit: 2 } }, enabled).data
  const webhooks = useRead(workspace, 'GET /v2/webhooks', { query: { limit: 1 } }, enabled).data
  const all: Suggestion[] = [
    {
      to: '/integrations',
      icon: 'branch',
      label: 'Connect a git host',
      detail: 'Pushes then deploy, and pull requests get previews.',
      isOpen: hosts?.length === 0,
      needs: 'integrations:manage',
    },
    {
      to: '/members',
      icon: 'plus',
      label: 'Invite a member',
      detail: 'Each member has their own role.',
      isOpen: members?.resources.length === 1,
      needs: 'workspaces:manage-members',
    },
    {
      to: '/webhooks',
      icon: 'bell',
      label: 'Add a webhook',
      detail: 'Notify another system of deploys.',
      isOpen: webhooks?.resources.length === 0,
      needs: 'webhooks:manage',
    },
  ]
  const shown = all.filter(({ isOpen, needs }) => isOpen && !explainMissing(me, workspace, needs))
  if (isHidden || shown.length === 0) return null
  const hide = () => {
    localStorage.setItem(hiddenKey(workspace), 'hidden')
    setHidden(true)
  }
  return (
    <Card
      title="Next steps"
      aside={
        <Button small look="bare" onClick={hide}>
          Hide next steps
        </Button>
      }
    >
      <ul class={styles.next}>
        {shown.map(({ to, icon, label, detail }) => (
          <li key={to}>
            <Icon name={icon} />
            <Link to={to}>{label}</Link>
            <span>{detail}</span>
          </li>
        ))}
      </ul>
    </Card>
  )
}
