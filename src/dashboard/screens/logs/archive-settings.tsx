// The settings of archives that deployments of the workspace inherit: on or off, and for how long.
import { useState } from 'preact/hooks'
import { faultAt } from '../../api/faults.ts'
import { explainMissing } from '../../api/permissions.ts'
import { useRead } from '../../api/queries.ts'
import { readAgain } from '../../api/read-again.ts'
import { CheckField, TextField, unlessChanged } from '../../parts/form.tsx'
import { PageHead } from '../../parts/page.tsx'
import { CommandLine, Skeleton } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { Note } from '../../parts/sections.tsx'
import { useCrumbs } from '../../router/crumbs.ts'
import { ActionForm } from '../action-form.tsx'
import type { ScreenProps } from '../screen-props.ts'
import { type ArchiveSettings, setArchive, toDays } from './archive-actions.ts'

export default function ArchiveSettingsPage({ workspace, me }: ScreenProps) {
  useCrumbs({ label: 'Logs', to: '/logs' }, { label: 'Archive' })
  const { data, error, refetch } = useRead(workspace, 'GET /v2/log-archive-settings', {})
  return (
    <>
      <PageHead title="Archive of logs" />
      {error && !data && <Problem error={error} onRetry={() => void refetch()} />}
      {!data && !error && <Skeleton lines={4} />}
      {data && (
        <Settings
          key={JSON.stringify(data)}
          settings={data}
          missing={explainMissing(me, workspace, 'deployments:update')}
        />
      )}
    </>
  )
}

function Settings({ settings, missing }: { settings: ArchiveSettings; missing: string | undefined }) {
  const [enabled, setEnabled] = useState(settings.enabled)
  const [days, setDays] = useState(String(settings.retention_days))
  const isChanged = enabled !== settings.enabled || days !== String(settings.retention_days)
  const action = setArchive({ enabled, retention_days: toDays(days) }, missing ?? unlessChanged(isChanged))
  return (
    <ActionForm title="For all deployments" action={action} onDone={() => void readAgain('/log-archive-settings')}>
      {faults => (
        <>
          <Note>
            Every line of a deployment, in files by hour, beyond what the logs here keep. A deployment can have settings
            of its own, on the page <b>Archive</b> of its logs. There are its files, too.
          </Note>
          <CheckField
            label="Archive the lines of deployments"
            hint="Lines that arrive from then on. Files that exist are kept until they end."
            checked={enabled}
            onChange={setEnabled}
            unavailable={missing}
            isChanged={enabled !== settings.enabled}
            fault={faultAt(faults, 'enabled')}
          />
          <TextField
            label="Keep a new file for"
            inputMode="numeric"
            unit="days"
            value={days}
            onChange={setDays}
            unavailable={missing}
            isChanged={days !== String(settings.retention_days)}
            fault={faultAt(faults, 'retention_days')}
          />
          <CommandLine command="slipway log-archives list NAME --since 2d" />
        </>
      )}
    </ActionForm>
  )
}
