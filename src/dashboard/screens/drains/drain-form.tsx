// The fields of a drain: its receiver, its signals, of which deployments, and which lines.
import { type Faults, faultAt } from '../../api/faults.ts'
import { Button } from '../../parts/button.tsx'
import { ChipChoice, Inside } from '../../parts/chip-set.tsx'
import { CheckField, SelectField, TextField } from '../../parts/form.tsx'
import { Choices, SecretField } from '../../parts/form-frame.tsx'
import { Note } from '../../parts/sections.tsx'
import { describeLevel, LEVEL_OPTIONS } from '../log-levels.ts'
import { EMPTY_SCOPE, explainScope, fromScope, type Scope, toScope } from '../scope.ts'
import { ScopeFields } from '../scope-fields.tsx'
import type { NewBody, PatchBody } from './actions.ts'
import {
  type Drain,
  isLines,
  isUnscoped,
  KINDS,
  type Kind,
  labelOf,
  SIGNALS,
  SIGNALS_OF,
  type Signal,
} from './drain-state.ts'
import styles from './drains.module.css'

type Header = { name: string; value: string }
export type Draft = {
  name: string
  kind: Kind
  url: string
  headers: Header[]
  /** False keeps the headers that are stored. */
  replacesHeaders: boolean
  isCompressed: boolean
  signals: Signal[]
  scope: Scope
  level: string
  contains: string
  processes: string
  percent: string
}
export const EMPTY_DRAFT: Draft = {
  name: '',
  kind: 'otlp',
  url: '',
  headers: [{ name: 'Authorization', value: '' }],
  replacesHeaders: true,
  isCompressed: true,
  signals: ['logs'],
  scope: EMPTY_SCOPE,
  level: '',
  contains: '',
  processes: '',
  percent: '100',
}
export const toDraft = (drain: Drain): Draft => ({
  name: drain.name,
  kind: drain.kind,
  url: drain.url,
  headers: drain.header_names.length > 0 ? drain.header_names.map(name => ({ name, value: '' })) : EMPTY_DRAFT.headers,
  replacesHeaders: drain.header_names.length === 0,
  isCompressed: drain.compression === 'gzip',
  signals: drain.signals,
  scope: toScope(drain),
  level: drain.filter.min_level ?? '',
  contains: drain.filter.contains ?? '',
  processes: drain.filter.processes.join(', '),
  percent: String(Number((drain.sampling_rate * 100).toFixed(6))),
})

/** A kind cannot carry all signals, and what it cannot carry is not sent. */
const signalsOf = ({ kind, signals }: Draft): Signal[] => signals.filter(signal => SIGNALS_OF[kind].includes(signal))
const isScoped = (draft: Draft): boolean => !signalsOf(draft).some(isUnscoped)

const toShared = (draft: Draft) => ({
  name: draft.name.trim(),
  url: draft.url.trim(),
  compression: draft.isCompressed ? ('gzip' as const) : ('none' as const),
  signals: signalsOf(draft),
  ...fromScope(isScoped(draft) ? draft.scope : EMPTY_SCOPE),
  filter: {
    min_level: (draft.level || null) as 'ERROR' | null,
    contains: draft.contains || null,
    processes: draft.processes.split(/[\s,]+/).filter(Boolean),
  },
  // Send invalid numbers as none: the API explains what is expected.
  sampling_rate: Number(draft.percent.replace(',', '.')) / 100,
})
const headersOf = ({ headers, kind }: Draft): Record<string, string> =>
  kind === 'syslog'
    ? {}
    : Object.fromEntries(headers.filter(({ value }) => value !== '').map(({ name, value }) => [name.trim(), value]))

export const toBody = (draft: Draft): NewBody => ({ ...toShared(draft), kind: draft.kind, headers: headersOf(draft) })
export const toPatch = (draft: Draft): PatchBody => ({
  ...toShared(draft),
  ...(draft.replacesHeaders && { headers: headersOf(draft) }),
})
export const explainDraft = (draft: Draft): string | undefined =>
  signalsOf(draft).length === 0 ? 'Select a signal first.' : isScoped(draft) ? explainScope(draft.scope) : undefined

type Props = {
  workspace: string
  draft: Draft
  onChange: (part: Partial<Draft>) => void
  faults: Faults
  /** The drain that is edited. */
  drain?: Drain
}
export function DrainFields({ workspace, draft, onChange, faults, drain }: Props) {
  const kind = KINDS.find(({ value }) => value === draft.kind)!
  const signals = signalsOf(draft)
  return (
    <>
      {!drain && (
        <Choices legend="Receiver" value={draft.kind} onChange={value => onChange({ kind: value })} options={KINDS} />
      )}
      <TextField
        label="Name"
        value={draft.name}
        onChange={name => onChange({ name })}
        placeholder="Collector"
        fault={faultAt(faults, 'name')}
      />
      <TextField
        label="Address"
        mono
        inputMode="url"
        value={draft.url}
        onChange={url => onChange({ url })}
        placeholder={kind.url}
        hint={kind.hint}
        fault={faultAt(faults, 'url')}
      />
      {draft.kind !== 'syslog' && <HeaderFields draft={draft} onChange={onChange} faults={faults} drain={drain} />}
      <ChipChoice
        legend="Signals"
        options={SIGNALS_OF[draft.kind].map(value => ({ value, label: SIGNALS[value] }))}
        chosen={signals}
        onChange={chosen => onChange({ signals: chosen as Signal[] })}
        hint={
          SIGNALS_OF[draft.kind].length < Object.keys(SIGNALS).length
            ? `${labelOf(draft.kind)} carries no others.`
            : 'Agents send logs, requests and metrics. The control plane sends traces and events.'
        }
        fault={faultAt(faults, 'signals')}
      />
      {isScoped(draft) ? (
        <ScopeFields
          workspace={workspace}
          scope={draft.scope}
          onChange={scope => onChange({ scope })}
          faults={faults}
          some="Only signals of selected deployments, or of deployments with a tag."
        />
      ) : (
        <Note>Traces and events are those of the whole workspace. To select deployments, leave them out.</Note>
      )}
      {signals.some(isLines) && <LineFields draft={draft} onChange={onChange} faults={faults} />}
      {draft.kind !== 'syslog' && (
        <CheckField
          label="Compress requests with gzip"
          checked={draft.isCompressed}
          onChange={isCompressed => onChange({ isCompressed })}
        />
      )}
    </>
  )
}

type PartProps = Pick<Props, 'draft' | 'onChange' | 'faults'>

function HeaderFields({ draft, onChange, faults, drain }: PartProps & { drain: Drain | undefined }) {
  const { headers } = draft
  const change = (at: number, part: Partial<Header>) =>
    onChange({ headers: headers.map((one, i) => (i === at ? { ...one, ...part } : one)) })
  const stored = drain?.header_names ?? []
  return (
    <>
      {stored.length > 0 && (
        <CheckField
          label="Replace the headers"
          hint={`Stored: ${stored.join(', ')}. Their values are not shown again. Another server needs them anew.`}
          checked={draft.replacesHeaders}
          onChange={replacesHeaders => onChange({ replacesHeaders })}
          fault={faultAt(faults, 'headers')}
        />
      )}
      {draft.replacesHeaders && (
        <>
          {headers.map(({ name, value }, at) => (
            <div key={at} class={styles.header}>
              <TextField
                label="Header"
                mono
                value={name}
                onChange={text => change(at, { name: text })}
                placeholder="Authorization"
              />
              <SecretField
                label={`Value of ${name || 'the header'}`}
                value={value}
                onChange={text => change(at, { value: text })}
                hint={at === 0 ? 'Such as “Bearer …”. Stored encrypted, and not shown again.' : ''}
                fault={faultAt(faults, `headers.${name.trim()}`)}
              />
            </div>
          ))}
          <p>
            <Button small icon="plus" onClick={() => onChange({ headers: [...headers, { name: '', value: '' }] })}>
              Add a header
            </Button>
          </p>
        </>
      )}
    </>
  )
}

const LineFields = ({ draft, onChange, faults }: PartProps) => (
  <details class={styles.lines} open={draft.level !== '' || draft.contains !== '' || draft.processes !== ''}>
    <summary>Filter and sample the lines of logs and requests</summary>
    <Inside>
      <SelectField
        label="Level"
        value={draft.level}
        options={LEVEL_OPTIONS}
        onChange={level => onChange({ level })}
        fault={faultAt(faults, 'filter.min_level')}
      />
      <TextField
        label="Text"
        value={draft.contains}
        onChange={contains => onChange({ contains })}
        hint="Only lines with this text, in any case. No pattern."
        fault={faultAt(faults, 'filter.contains')}
      />
      <TextField
        label="Process types"
        mono
        value={draft.processes}
        onChange={processes => onChange({ processes })}
        placeholder="web, worker"
        hint="Separated by commas. Without any, all."
        fault={faultAt(faults, 'filter.processes')}
      />
      <TextField
        label="Share of the lines"
        inputMode="decimal"
        unit="%"
        value={draft.percent}
        onChange={percent => onChange({ percent })}
        hint="Of those that pass the filter."
        fault={faultAt(faults, 'sampling_rate')}
      />
    </Inside>
  </details>
)

export const describeFilter = ({ filter: { min_level, contains, processes }, sampling_rate }: Drain): string =>
  [
    min_level && describeLevel(min_level),
    contains && `with “${contains}”`,
    processes.length > 0 && `of ${processes.join(', ')}`,
    sampling_rate < 1 && `${Number((sampling_rate * 100).toPrecision(3))} % of them`,
  ]
    .filter(Boolean)
    .join(', ') || 'All lines'
