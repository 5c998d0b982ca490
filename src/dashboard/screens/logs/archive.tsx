// The archive of a deployment's logs: whether lines are archived, for how long, and its files.
import { useState } from 'preact/hooks'
import { getClient, type Me, type Reply } from '../../api/client.ts'
import { faultAt } from '../../api/faults.ts'
import { explainMissing } from '../../api/permissions.ts'
import { usePages, useRead } from '../../api/queries.ts'
import { readAgain } from '../../api/read-again.ts'
import { plural } from '../../format/amount.ts'
import { word } from '../../format/shell-word.ts'
import type { Deployment } from '../../format/state.ts'
import { formatExact, formatShort } from '../../format/time.ts'
import { Button, ButtonLink } from '../../parts/button.tsx'
import { Card } from '../../parts/card.tsx'
import { SelectField, TextField, unlessChanged } from '../../parts/form.tsx'
import { Stack } from '../../parts/page.tsx'
import { CommandLine, Skeleton } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { formatBytes, saveFile } from '../../parts/save-file.ts'
import { Body, Note } from '../../parts/sections.tsx'
import { Cell, More, Row, Table } from '../../parts/table.tsx'
import { toast } from '../../parts/toast.ts'
import { toAddress } from '../../router/links.tsx'
import { ActionForm } from '../action-form.tsx'
import { DeploymentFrame } from '../deployments/frame.tsx'
import type { ScreenProps } from '../screen-props.ts'
import { setOwnArchive, toDays } from './archive-actions.ts'

const LIST = 'GET /v2/deployments/{deployment_id}/log-archives'
type Archive = Reply<typeof LIST>['resources'][number]
type Own = Reply<'GET /v2/deployments/{deployment_id}/log-archive-settings'>

/** A file is written without an event. */
const READ_EVERY_MS = 60_000

export default function ArchivePage({ workspace, params, me }: ScreenProps<{ deployment: string }>) {
  return (
    <DeploymentFrame workspace={workspace} id={params.deployment} tab="/logs" page="Archive of logs">
      {deployment => (
        <Stack>
          <Settings workspace={workspace} me={me} deployment={deployment} />
          <Files workspace={workspace} deployment={deployment} />
        </Stack>
      )}
    </DeploymentFrame>
  )
}

type Props = { workspace: string; deployment: Deployment }

function Settings({ workspace, me, deployment }: Props & { me: Me }) {
  const { data, error, refetch } = useRead(workspace, 'GET /v2/deployments/{deployment_id}/log-archive-settings', {
    params: { deployment_id: deployment.id },
  })
  const workspaceOwn = useRead(workspace, 'GET /v2/log-archive-settings', {})
  if (error && !data) return <Problem error={error} onRetry={() => void refetch()} />
  if (!data || !workspaceOwn.data) return <Skeleton lines={4} />
  return (
    <SettingsForm
      key={JSON.stringify(data)}
      deployment={deployment}
      settings={data}
      inherited={workspaceOwn.data}
      missing={explainMissing(me, workspace, 'deployments:update')}
    />
  )
}

type FormProps = {
  deployment: Deployment
  settings: Own
  inherited: Own['effective']
  missing: string | undefined
}
function SettingsForm({ deployment, settings, inherited, missing }: FormProps) {
  const stored = { enabled: settings.enabled === null ? '' : String(settings.enabled), days: showDays(settings) }
  const [enabled, setEnabled] = useState(stored.enabled)
  const [days, setDays] = useState(stored.days)
  const isChanged = enabled !== stored.enabled || days !== stored.days
  const body = {
    enabled: enabled === '' ? null : enabled === 'true',
    retention_days: days.trim() === '' ? null : toDays(days),
  }
  const { effective } = settings
  return (
    <ActionForm
      title={
        effective.enabled
          ? `Lines are archived for ${plural(effective.retention_days, 'day')}`
          : 'No lines are archived'
      }
      action={setOwnArchive(deployment, body, missing ?? unlessChanged(isChanged))}
      onDone={() => void readAgain('/log-archive-settings')}
    >
      {faults => (
        <>
          <SelectField
            label="Archive"
            value={enabled}
            options={[
              { value: '', label: `As the workspace has it (${inherited.enabled ? 'on' : 'off'})` },
              { value: 'true', label: 'On' },
              { value: 'false', label: 'Off' },
            ]}
            onChange={setEnabled}
            unavailable={missing}
            isChanged={enabled !== stored.enabled}
            hint="About lines that arrive from then on."
            fault={faultAt(faults, 'enabled')}
          />
          <TextField
            label="Keep a new file for"
            inputMode="numeric"
            unit="days"
            value={days}
            onChange={setDays}
            placeholder={String(inherited.retention_days)}
            unavailable={missing}
            isChanged={days !== stored.days}
            hint="Empty: as the workspace has it."
            fault={faultAt(faults, 'retention_days')}
          />
          <p>
            <ButtonLink small href={toAddress('/logs/archive')}>
              Settings of the workspace
            </ButtonLink>
          </p>
        </>
      )}
    </ActionForm>
  )
}
const showDays = ({ retention_days }: Own): string => (retention_days === null ? '' : String(retention_days))

function Files({ workspace, deployment }: Props) {
  const params = { deployment_id: deployment.id }
  const { items, error, hasNextPage, isFetchingNextPage, fetchNextPage, refetch } = usePages(
    workspace,
    LIST,
    { params, query: { limit: 48 } },
    { everyMs: READ_EVERY_MS },
  )
  return (
    <Card title="Files" aside="Written within minutes after each hour">
      {error && !items && <Problem error={error} onRetry={() => void refetch()} />}
      {!items && !error && <Skeleton lines={5} />}
      {items?.length === 0 && (
        <Body>
          <Note>No files yet. A file has the lines that arrived within an hour.</Note>
        </Body>
      )}
      {items && items.length > 0 && (
        <>
          <Table
            caption="Files of the archive, newest first"
            columns={[
              { label: 'Hour', width: '34%' },
              { label: 'Lines', width: '26%' },
              { label: 'Kept until' },
              { label: 'Download', width: '140', isEnd: true },
            ]}
          >
            {items.map(archive => (
              <Row key={archive.id}>
                <Cell>
                  <time dateTime={archive.hour} title={formatExact(archive.hour)}>
                    {formatShort(archive.hour)}
                  </time>
                </Cell>
                <Cell
                  detail={archive.dropped_lines > 0 && `${plural(archive.dropped_lines, 'line')} could not be archived`}
                >
                  {plural(archive.lines, 'line')}
                </Cell>
                <Cell isWideOnly>{formatExact(archive.expires_at)}</Cell>
                <Cell isEnd>
                  <Download deployment={deployment} archive={archive} />
                </Cell>
              </Row>
            ))}
          </Table>
          <Body>
            <Note>JSON objects, one in each line, compressed by gzip. All of a time as one file:</Note>
            <CommandLine
              command={`slipway log-archives download ${word(deployment.name)} --since 2d --output logs.ndjson.gz`}
            />
          </Body>
        </>
      )}
      {hasNextPage && <More isBusy={isFetchingNextPage} onMore={() => void fetchNextPage()} />}
    </Card>
  )
}

function Download({ deployment, archive }: { deployment: Deployment; archive: Archive }) {
  const [busy, setBusy] = useState(false)
  async function save(): Promise<void> {
    setBusy(true)
    const name = `${deployment.name}-${archive.hour.slice(0, 13)}-${archive.id.slice(0, 8)}.ndjson.gz`
    try {
      const parts = getClient().download(`${LIST}/{archive_id}`, {
        params: { deployment_id: deployment.id, archive_id: archive.id },
      })
      toast('ok', `Downloaded ${name}`, formatBytes(await saveFile(name, 'application/gzip', parts)))
    } catch (error) {
      toast('bad', `Download ${name}: failed`, (error as Error).message)
    }
    setBusy(false)
  }
  return (
    <Button
      small
      icon="get"
      busy={busy}
      aria-label={`Download ${formatShort(archive.hour)}`}
      onClick={() => void save()}
    >
      {formatBytes(archive.bytes)}
    </Button>
  )
}
