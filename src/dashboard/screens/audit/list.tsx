// The audit log: who did what, what it was before and after, from where, and what was refused.
import { useRef, useState } from 'preact/hooks'
import { type AuditFilter, type AuditItem, useAuditPages } from '../../api/audit-pages.ts'
import type { Me } from '../../api/client.ts'
import { useRead } from '../../api/queries.ts'
import { useCommands, useRowKeys } from '../../commands/commands.ts'
import { Button, ButtonLink } from '../../parts/button.tsx'
import { Chip } from '../../parts/field.tsx'
import { SelectField, TextField } from '../../parts/form.tsx'
import { Body, ListCard, Note, PageHead, Stack } from '../../parts/page.tsx'
import { Card, CommandLine, Empty, Skeleton } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { More } from '../../parts/table.tsx'
import { useCrumbs } from '../../router/crumbs.ts'
import { Link, setFilters, toAddress, useFilter } from '../../router/links.tsx'
import { useRoles } from '../members/use-roles.ts'
import type { ScreenProps } from '../screen-props.ts'
import styles from './audit.module.css'
import { ExportBar } from './export.tsx'
import { AuditEntry } from './item.tsx'
import { END, listOperations, PERIODS, startOfPeriod } from './words.ts'

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i

export default function AuditLog({ workspace, me }: ScreenProps) {
  useCrumbs({ label: 'Audit' })
  return me.permissions.includes('audit-logs:read') ? (
    <Log workspace={workspace} />
  ) : (
    <Unreadable workspace={workspace} me={me} />
  )
}

function Unreadable({ workspace, me }: { workspace: string; me: Me }) {
  const roles = useRoles(workspace)
  const able = roles.all.filter(({ permissions }) => permissions.includes('audit-logs:read'))
  const role = me.member ?? me.api_key
  return (
    <Empty
      title="Your role cannot read the audit log"
      action={<ButtonLink href={toAddress('/roles')}>Open the roles</ButtonLink>}
    >
      It shows what people and programs did in all workspaces of {me.organization.display_name}, so it takes the
      permission audit-logs:read in the organization. Yours there is {roles.nameOf(role?.role_id)}
      {able.length > 0 && `; those that can are ${able.map(one => one.display_name).join(', ')}`}.
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
  const { items, error, hasNextPage, isFetching, isFetchingNextPage, fetchNextPage, refetch } = useAuditPages(filter, {
    enabled: true,
  })
  const operations = useRead(workspace, 'GET /v1/audit-logs/operations', {})
  const list = useRef<HTMLDivElement>(null)
  useRowKeys(list, 'entry')
  useCommands([{ id: 'read-again', label: 'Read the audit log again', kind: 'action', run: () => void refetch() }])
  const toggle = (value: string) => setResult(result === value ? '' : value)
  const faultOf = (id: string) => (id === '' || UUID.test(id) ? undefined : 'is not an id')
  const isFiltered = operation !== '' || actor !== '' || subject !== '' || of !== '' || result !== ''
  return (
    <Stack>
      <PageHead
        title="Audit"
        actions={
          <Button icon="again" busy={isFetching} onClick={() => void refetch()}>
            Read again
          </Button>
        }
      />
      <div>
        <div class={styles.filters}>
          <SelectField label="Time" value={since || '30d'} onChange={setSince} options={PERIODS} />
          <SelectField
            label="What"
            value={operation}
            onChange={setOperation}
            options={[
              { value: '', label: 'Everything' },
              ...listOperations(operations.data?.operations ?? (operation ? [operation] : [])),
            ]}
          />
          <TextField
            label="By whom"
            mono
            value={actor}
            onChange={setActor}
            placeholder="id of a member or key"
            fault={faultOf(actor)}
          />
          <TextField
            label="About what"
            mono
            value={subject}
            onChange={setSubject}
            placeholder="id of a deployment, key, …"
            fault={faultOf(subject)}
          />
        </div>
        <div class={styles.chips}>
          <Chip pressed={result === 'done'} onPress={() => toggle('done')}>
            Done
          </Chip>
          <Chip pressed={result === 'refused'} onPress={() => toggle('refused')}>
            Refused
          </Chip>
          <Chip pressed={of === 'workspace'} onPress={() => setOf(of ? '' : 'workspace')}>
            Only this workspace
          </Chip>
        </div>
        {error && !items && <Problem error={error} onRetry={() => void refetch()} />}
        <ListCard>
          {!items && !error && <Skeleton lines={8} />}
          {items?.length === 0 && (
            <Empty
              title={isFiltered ? 'No entry matches' : 'No entry in this time'}
              action={
                isFiltered && (
                  <Button
                    onClick={() => setFilters({ operation: '', actor_id: '', subject_id: '', of: '', result: '' })}
                  >
                    Show all entries
                  </Button>
                )
              }
            >
              Writes, refused requests and readings of this log are in it. Choose a longer time to see older ones.
            </Empty>
          )}
          <div ref={list}>
            {items?.map((item: AuditItem) => (
              <AuditEntry key={item.metadata.uid} item={item} onActor={setActor} onSubject={setSubject} />
            ))}
          </div>
        </ListCard>
        {hasNextPage && <More isBusy={isFetchingNextPage} onMore={() => void fetchNextPage()} />}
      </div>
      <ExportBar filter={filter} />
      <Card title="Tamper evidence">
        <Body>
          <Note>
            Each event has the hash of the one before, and the newest is signed once a day with a key that is not in the
            database. The operator of the installation verifies the chain with this command:
          </Note>
          <CommandLine command="npm run audit:verify" />
          <Note>
            What happens in this workspace is also on the page of its <Link to="/history">history</Link>.
          </Note>
        </Body>
      </Card>
    </Stack>
  )
}
