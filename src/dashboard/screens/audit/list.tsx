// The audit log: actors, changes, sources, and refused requests.
import { useState } from 'preact/hooks'
import { type AuditFilter, type AuditItem, useAuditPages } from '../../api/audit-pages.ts'
import type { Me } from '../../api/client.ts'
import { useRead } from '../../api/queries.ts'
import { useCommands } from '../../commands/commands.ts'
import { Button, ButtonLink } from '../../parts/button.tsx'
import { Card } from '../../parts/card.tsx'
import { Chip } from '../../parts/field.tsx'
import { SelectField, TextField } from '../../parts/form.tsx'
import { CommandLine, Empty } from '../../parts/panel.tsx'
import { Body, Note } from '../../parts/sections.tsx'
import { useCrumbs } from '../../router/crumbs.ts'
import { Link, setFilters, toAddress, useFilter } from '../../router/links.tsx'
import { useRoles } from '../members/use-roles.ts'
import { ResourceList } from '../resource-list.tsx'
import type { ScreenProps } from '../screen-props.ts'
import styles from './audit.module.css'
import { ExportBar } from './export.tsx'
import { AuditEntry } from './item.tsx'
import { END, listOperations, PERIODS, startOfPeriod } from './words.ts'

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i

export default function AuditLog({ workspace, me }: ScreenProps) {
  return me.permissions.includes('audit-logs:read') ? (
    <Log workspace={workspace} />
  ) : (
    <Unreadable workspace={workspace} me={me} />
  )
}

function Unreadable({ workspace, me }: { workspace: string; me: Me }) {
  useCrumbs({ label: 'Audit' })
  const roles = useRoles(workspace)
  const able = roles.all.filter(({ permissions }) => permissions.includes('audit-logs:read'))
  const role = me.member ?? me.api_key
  return (
    <Empty
      title="Your role cannot read the audit log"
      action={<ButtonLink href={toAddress('/roles')}>Open the roles</ButtonLink>}
    >
      The audit log covers all workspaces of {me.organization.display_name}, so it needs the permission audit-logs:read
      in the organization. Your role there is {roles.nameOf(role?.role_id)}.
      {able.length > 0 && ` Roles with this permission: ${able.map(one => one.display_name).join(', ')}.`}
    </Empty>
  )
}

function Log({ workspace }: { workspace: string }) {
  const [since, setSince] = useFilter('since')
  const [operation, setOperation] = useFilter('operation')
  const [actor, setActor] = useFilter('actor_id')
  const [subject, setSubject] = useFilter('subject_id')
  const [of, setOf] = useFilter('of')
  const [result, setResult] = useFilter('result')
  const [openedAt] = useState(Date.now)
  const filter: AuditFilter = {
    start_time: startOfPeriod(since, openedAt),
    end_time: END,
    ...(of === 'workspace' && { workspace_id: workspace }),
    ...(operation && { operations: [operation] }),
    ...(UUID.test(actor) && { actor_id: actor }),
    ...(UUID.test(subject) && { subject_id: subject }),
    ...(result && { succeeded: result === 'done' }),
  }
  const query = useAuditPages(filter, { enabled: true })
  const operations = useRead(workspace, 'GET /v1/audit-logs/operations', {})
  useCommands([{ id: 'read-again', label: 'Refresh the audit log', kind: 'action', run: () => void query.refetch() }])
  const toggle = (value: string) => setResult(result === value ? '' : value)
  const faultOf = (id: string) => (id === '' || UUID.test(id) ? undefined : 'is not an id')
  const isFiltered = operation !== '' || actor !== '' || subject !== '' || of !== '' || result !== ''
  return (
    <ResourceList<AuditItem>
      title="Audit"
      thing="entry"
      caption="Entries, newest first"
      query={query}
      actions={
        <Button icon="again" busy={query.isFetching} onClick={() => void query.refetch()}>
          Refresh
        </Button>
      }
      toolbar={
        <>
          <div class={styles.filters}>
            <SelectField label="Time" value={since || '30d'} onChange={setSince} options={PERIODS} />
            <SelectField
              label="Operation"
              value={operation}
              onChange={setOperation}
              options={[
                { value: '', label: 'All operations' },
                ...listOperations(operations.data?.operations ?? (operation ? [operation] : [])),
              ]}
            />
            <TextField
              label="Actor"
              mono
              value={actor}
              onChange={setActor}
              placeholder="id of a member or key"
              fault={faultOf(actor)}
            />
            <TextField
              label="Subject"
              mono
              value={subject}
              onChange={setSubject}
              placeholder="id of a deployment, key, …"
              fault={faultOf(subject)}
            />
          </div>
          <div class={styles.chips}>
            <Chip pressed={result === 'done'} onPress={() => toggle('done')}>
              Succeeded
            </Chip>
            <Chip pressed={result === 'refused'} onPress={() => toggle('refused')}>
              Refused
            </Chip>
            <Chip pressed={of === 'workspace'} onPress={() => setOf(of ? '' : 'workspace')}>
              Only this workspace
            </Chip>
          </div>
        </>
      }
      empty={
        <Empty
          title={isFiltered ? 'No entry matches' : 'No entries in this period'}
          action={
            isFiltered && (
              <Button onClick={() => setFilters({ operation: '', actor_id: '', subject_id: '', of: '', result: '' })}>
                Show all entries
              </Button>
            )
          }
        >
          The log has writes, refused requests and reads of the log. Choose a longer period to see older entries.
        </Empty>
      }
      body={items => (
        <>
          {items.map(item => (
            <AuditEntry key={item.metadata.uid} item={item} onActor={setActor} onSubject={setSubject} />
          ))}
        </>
      )}
    >
      <ExportBar filter={filter} />
      <Card title="Tamper evidence">
        <Body>
          <Note>
            Each event has the hash of the one before, and the newest is signed once a day with a key that is not in the
            database. The operator of the installation verifies the chain with this command:
          </Note>
          <CommandLine command="npm run audit:verify" />
          <Note>
            The <Link to="/history">history</Link> also shows the events of this workspace.
          </Note>
        </Body>
      </Card>
    </ResourceList>
  )
}
