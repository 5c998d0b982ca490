// The settings of every source: name, listener, variables and build commands.
import { useEffect } from 'preact/hooks'
import { faultAt } from '../../api/faults.ts'
import { formatAge } from '../../format/time.ts'
import { Card } from '../../parts/card.tsx'
import { Fields, SelectField, TextField } from '../../parts/form.tsx'
import { now } from '../../parts/time.tsx'
import { useListeners, useTemplates } from './agents.ts'
import { type Choice, type Draft, isBuilt, PLATFORM } from './draft.ts'
import styles from './new.module.css'
import { NoAgent } from './no-agent.tsx'
import { type Notice, Variables } from './variables.tsx'

type SettingsProps = {
  workspace: string
  draft: Draft
  suggested: string
  faults: Map<string, string>
  /** The outcome of a text with variables. */
  notice: Notice | undefined
  onChoose: (values: Partial<Choice>) => void
  onChange: (values: Partial<Draft>) => void
  onVariables: (text: string, source: string) => void
}
export function Settings(props: SettingsProps) {
  const { workspace, draft, suggested, faults, notice, onChoose, onChange, onVariables } = props
  const { way, name, variables, root, installCommand, buildCommand } = draft
  return (
    <Card title="Settings">
      <Fields>
        <TextField
          label="Name"
          value={name}
          placeholder={suggested}
          onChange={value => onChange({ name: value })}
          fault={faultAt(faults, 'name')}
          hint="Part of the URL. It cannot be changed later."
        />
        {way !== 'repository' && (
          <ListenerField workspace={workspace} draft={draft} faults={faults} onChoose={onChoose} onChange={onChange} />
        )}
      </Fields>
      <NoAgent workspace={workspace} />
      <Variables
        variables={variables}
        faults={faults}
        notice={notice}
        onChange={changed => onChange({ variables: changed })}
        onText={onVariables}
      />
      {isBuilt(way) && (
        <details class={styles.details}>
          <summary>
            Build and start <span>{root || installCommand || buildCommand ? 'Custom' : 'Detected'}</span>
          </summary>
          <Fields>
            <TextField
              mono
              label="Root folder"
              placeholder="apps/web"
              value={root}
              onChange={value => onChange({ root: value })}
              fault={faultAt(faults, 'source_config.root_directory')}
              hint="The folder of the application, in a source with several."
            />
            <TextField
              mono
              label="Install command"
              placeholder="Detected"
              value={installCommand}
              onChange={value => onChange({ installCommand: value })}
              fault={faultAt(faults, 'source_config.install_command')}
              hint="By default, what the lock file or the language needs."
            />
            <TextField
              mono
              label="Build command"
              placeholder="Detected"
              value={buildCommand}
              onChange={value => onChange({ buildCommand: value })}
              fault={faultAt(faults, 'source_config.build_command')}
              hint="By default, the build script or that of the framework."
            />
          </Fields>
          <p class={styles.aside}>
            <code>start_command</code> of <code>slipway.json</code> starts the application, or else what is detected. It
            listens on the port in <code>PORT</code>.
          </p>
        </details>
      )}
    </Card>
  )
}

type ListenerProps = Omit<SettingsProps, 'suggested' | 'notice' | 'onVariables'>
/** Shown only where there is a choice. */
function ListenerField({ workspace, draft, faults, onChoose, onChange }: ListenerProps) {
  const listeners = useListeners(workspace).data?.resources ?? []
  const { data: templates } = useTemplates(workspace)
  const chosen = listeners.find(({ id }) => id === draft.listener)
  const fault = faultAt(faults, 'source_config.listener_id')
  const offered = templates?.resources.find(({ name }) => name === draft.template)
  const canRun = (id: string) => draft.way !== 'template' || !offered || offered.listener_ids.includes(id)
  // A platform that offers a template has an agent.
  const hasPlatform = offered ? offered.platform : (templates?.resources.some(({ platform }) => platform) ?? true)
  const heard = listeners.filter(({ id, last_seen_at }) => canRun(id) && last_seen_at)
  const preferred = hasPlatform ? undefined : heard[0]
  const choose = (id: string) => {
    const [first = ''] = listeners.find(one => one.id === id)?.compute_config.k8s_namespaces ?? []
    onChoose({ listener: id })
    onChange({ namespace: first })
  }
  useEffect(() => {
    if (preferred && draft.listener === '') choose(preferred.id)
  }, [preferred?.id])
  if (listeners.length === 0) return null
  const describe = (seen: string | null) =>
    seen === null
      ? 'never connected'
      : `connected ${formatAge((now.value - Date.parse(seen)) / 1000)} ago`.replace('now ago', 'now')
  const namespaces = chosen?.compute_config.k8s_namespaces ?? []
  return (
    <>
      <SelectField
        label="Runs on"
        value={chosen?.id ?? PLATFORM}
        options={[
          { value: PLATFORM, label: 'The platform' },
          ...listeners
            .filter(({ id }) => canRun(id))
            .map(({ id, compute_id, last_seen_at }) => ({
              value: id,
              label: `${compute_id} (${describe(last_seen_at)})`,
            })),
        ]}
        onChange={choose}
        fault={fault}
        hint="It cannot be changed later."
      />
      {namespaces.length > 0 && (
        <SelectField
          label="Namespace"
          value={draft.namespace}
          options={namespaces.map(one => ({ value: one, label: one }))}
          onChange={namespace => onChange({ namespace })}
          fault={faultAt(faults, 'source_config.listener_config')}
        />
      )}
    </>
  )
}
