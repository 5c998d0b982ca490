// The workspace and its organization: names and rules, tags, the export, and the end.
import { useState } from 'preact/hooks'
import { type Me, type Workspace as MyWorkspace, meVersion } from '../../api/client.ts'
import { faultAt, listFaults } from '../../api/faults.ts'
import { explainMissing } from '../../api/permissions.ts'
import { readAgain, usePages, useRead } from '../../api/queries.ts'
import { ActionButton, CopyAs, useAction } from '../../parts/action.tsx'
import { Button, ButtonLink } from '../../parts/button.tsx'
import { CheckField, TextField } from '../../parts/form.tsx'
import { Form } from '../../parts/form-frame.tsx'
import { Body, Foot, Note, PageHead, Stack } from '../../parts/page.tsx'
import { Card, Skeleton } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { toast } from '../../parts/toasts.tsx'
import { useCrumbs } from '../../router/crumbs.ts'
import { Link, toAddress } from '../../router/links.tsx'
import { explainMissingInOrganization } from '../members/actions.ts'
import type { ScreenProps } from '../screen-props.ts'
import { changeOrganization, changeWorkspace, deleteWorkspace, type Organization, type Workspace } from './actions.ts'
import { ExportCard } from './export.tsx'
import { TagsCard } from './tags.tsx'

export default function WorkspaceSettings({ workspace, me }: ScreenProps) {
  useCrumbs({ label: 'Workspace' })
  const { data, error, refetch } = useRead(workspace, 'GET /workspaces/{workspace_id}', {
    params: { workspace_id: workspace },
  })
  const organization = useRead(workspace, 'GET /orgs/current/info', {})
  const deployments = usePages(workspace, 'GET /v2/deployments', { query: { limit: 100 } })
  const mine = me.workspaces.find(({ id }) => id === workspace) as MyWorkspace
  const missing = explainMissingInOrganization(me, 'workspaces:create')
  if (error && !data) return <Problem error={error} onRetry={() => void refetch()} />
  if (!data) return <Skeleton lines={9} />
  const count = deployments.hasNextPage ? undefined : deployments.items?.length
  return (
    <Stack>
      <PageHead
        title={data.display_name}
        actions={
          missing ? (
            <Button icon="plus" unavailable title={missing} onClick={() => toast('bad', 'You cannot do this', missing)}>
              New workspace
            </Button>
          ) : (
            <ButtonLink href={toAddress('/settings/new-workspace')} icon="plus">
              New workspace
            </ButtonLink>
          )
        }
        meta={[`A workspace of ${me.organization.display_name}`, <code key="id">{data.id}</code>]}
      />
      <Card title="Name and rules">
        <WorkspaceForm key={data.updated_at} me={me} workspace={data} />
      </Card>
      <TagsCard me={me} workspace={workspace} />
      <ExportCard workspace={mine} />
      {organization.data && (
        <Card title="Organization">
          <OrganizationForm key={organization.data.updated_at} me={me} organization={organization.data} />
        </Card>
      )}
      <Card title="Delete" tone="bad">
        <Body>
          <Note>
            {count === 0
              ? 'There is no deployment in it. Its listeners, webhooks, git hosts, keys and memberships are deleted with it.'
              : 'Its deployments stop serving at once, and all that is in it is deleted. Export it first.'}
          </Note>
          <div>
            <ActionButton action={deleteWorkspace(me, data, count)} onDone={() => location.assign('/ui/')} />
          </div>
        </Body>
      </Card>
      <Foot>
        <p>
          <Link to={`/audit?subject_id=${workspace}`}>Audit log of this workspace</Link>
        </p>
      </Foot>
    </Stack>
  )
}

function WorkspaceForm({ me, workspace }: { me: Me; workspace: Workspace }) {
  const [name, setName] = useState(workspace.display_name)
  const [isStrict, setStrict] = useState(workspace.require_if_match)
  const action = changeWorkspace(me, workspace, { display_name: name.trim(), require_if_match: isStrict })
  const { start, busy, error } = useAction({
    onDone: () => {
      meVersion.value++
      void readAgain('/workspaces/{workspace_id}')
    },
    showsError: true,
  })
  const faults = listFaults(error)
  const locked = explainMissing(me, workspace.id, 'workspaces:update')
  const isChanged = name !== workspace.display_name || isStrict !== workspace.require_if_match
  return (
    <Form
      label="Name and rules"
      onSubmit={() => isChanged && start(action)}
      footer={
        <>
          <Button
            type="submit"
            look="primary"
            busy={busy}
            disabled={!isChanged && !locked}
            unavailable={locked !== undefined}
            title={locked}
          >
            {action.label}
          </Button>
          <CopyAs action={action} />
        </>
      }
    >
      <TextField
        label="Name"
        value={name}
        onChange={setName}
        locked={locked}
        isChanged={name !== workspace.display_name}
        fault={faultAt(faults, 'display_name')}
      />
      <CheckField
        label="Refuse changes without If-Match"
        hint="A script must name the version that it changes, so it cannot overwrite a newer one. The dashboard changes the newest version."
        checked={isStrict}
        onChange={setStrict}
        locked={locked}
        isChanged={isStrict !== workspace.require_if_match}
      />
      {error && <Problem error={error} />}
    </Form>
  )
}

const splitHosts = (text: string): string[] => text.split(/[\s,]+/).filter(Boolean)

function OrganizationForm({ me, organization }: { me: Me; organization: Organization }) {
  const [name, setName] = useState(organization.display_name)
  const [isRbac, setRbac] = useState(organization.rbac_enabled)
  const [hosts, setHosts] = useState(organization.assume_s256.join(' '))
  const body = { display_name: name.trim(), rbac_enabled: isRbac, assume_s256: splitHosts(hosts) }
  const action = changeOrganization(me, body)
  const { start, busy, error } = useAction({
    onDone: () => {
      meVersion.value++
      void readAgain('/orgs/current/info')
    },
    showsError: true,
  })
  const faults = listFaults(error)
  const locked = action.unavailable
  const before = { display_name: organization.display_name, rbac_enabled: organization.rbac_enabled }
  const isChanged = JSON.stringify(body) !== JSON.stringify({ ...before, assume_s256: organization.assume_s256 })
  return (
    <Form
      label="Organization"
      onSubmit={() => isChanged && start(action)}
      footer={
        <>
          <Button
            type="submit"
            look="primary"
            busy={busy}
            disabled={!isChanged && !locked}
            unavailable={locked !== undefined}
            title={locked}
          >
            {action.label}
          </Button>
          <CopyAs action={action} />
        </>
      }
    >
      <TextField
        label="Name of the organization"
        value={name}
        onChange={setName}
        locked={locked}
        isChanged={name !== organization.display_name}
        fault={faultAt(faults, 'display_name')}
      />
      <CheckField
        label="A new member needs a role"
        hint="If off, a person added to a workspace without a role becomes an Admin there."
        checked={isRbac}
        onChange={setRbac}
        locked={locked}
        isChanged={isRbac !== organization.rbac_enabled}
      />
      <TextField
        label="Authorization servers with S256"
        mono
        value={hosts}
        onChange={setHosts}
        placeholder="auth.example.com"
        hint="Hosts that support PKCE with S256 without announcing it, separated by spaces."
        locked={locked}
        isChanged={hosts !== organization.assume_s256.join(' ')}
        fault={faultAt(faults, 'assume_s256')}
      />
      <Note>
        How long the audit log is kept is a setting of the installation: <code>AUDIT_RETENTION_DAYS</code>.
      </Note>
      {error && <Problem error={error} />}
    </Form>
  )
}
