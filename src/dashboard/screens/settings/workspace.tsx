// The workspace and its organization: names and rules, tags, the export, and the end.
import { useState } from 'preact/hooks'
import { type Me, type Workspace as MyWorkspace, meVersion } from '../../api/client.ts'
import { faultAt, listFaults } from '../../api/faults.ts'
import { explainMissing } from '../../api/permissions.ts'
import { usePages, useRead } from '../../api/queries.ts'
import { readAgain } from '../../api/read-again.ts'
import { ActionButton, CopyAs, useAction } from '../../parts/action.tsx'
import { Button, ButtonLink } from '../../parts/button.tsx'
import { Card } from '../../parts/card.tsx'
import { CheckField, TextField, unlessChanged } from '../../parts/form.tsx'
import { Form } from '../../parts/form-frame.tsx'
import { PageHead, Stack } from '../../parts/page.tsx'
import { Skeleton } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { Body, Foot, Note } from '../../parts/sections.tsx'
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
          <ButtonLink href={toAddress('/settings/new-workspace')} icon="plus" unavailable={missing}>
            New workspace
          </ButtonLink>
        }
        meta={[`Organization ${me.organization.display_name}`, <code key="id">{data.id}</code>]}
      />
      <Card title="Workspace settings">
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
              ? 'The workspace has no deployments. Its listeners, webhooks, git hosts, keys and memberships are deleted ' +
                'too.'
              : 'All deployments stop serving immediately, and everything in the workspace is deleted. Export the ' +
                'workspace first.'}
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
        {(me.is_instance_admin || me.permissions.includes('fleet-admin:read')) && (
          <p>
            <Link to="/fleet">Fleet</Link>
          </p>
        )}
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
      label="Workspace settings"
      onSubmit={() => isChanged && start(action)}
      footer={
        <>
          <Button type="submit" look="primary" busy={busy} unavailable={locked ?? unlessChanged(isChanged)}>
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
        unavailable={locked}
        isChanged={name !== workspace.display_name}
        fault={faultAt(faults, 'display_name')}
      />
      <CheckField
        label="Require If-Match for changes"
        hint="API clients must name the version that they change, so they cannot overwrite a newer version. The
          dashboard always changes the newest version."
        checked={isStrict}
        onChange={setStrict}
        unavailable={locked}
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
          <Button type="submit" look="primary" busy={busy} unavailable={locked ?? unlessChanged(isChanged)}>
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
        unavailable={locked}
        isChanged={name !== organization.display_name}
        fault={faultAt(faults, 'display_name')}
      />
      <CheckField
        label="Require a role for new members"
        hint="If disabled, people added to a workspace without a role become Admins of the workspace."
        checked={isRbac}
        onChange={setRbac}
        unavailable={locked}
        isChanged={isRbac !== organization.rbac_enabled}
      />
      <TextField
        label="Authorization servers with S256"
        mono
        value={hosts}
        onChange={setHosts}
        placeholder="auth.example.com"
        hint="Hosts that support PKCE with S256 without announcing it, separated by spaces."
        unavailable={locked}
        isChanged={hosts !== organization.assume_s256.join(' ')}
        fault={faultAt(faults, 'assume_s256')}
      />
      <Note>
        The retention of the audit log is a setting of the installation: <code>AUDIT_RETENTION_DAYS</code>.
      </Note>
      {error && <Problem error={error} />}
    </Form>
  )
}
