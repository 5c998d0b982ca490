// The settings of a deployment: one form, validated by its own plan while it is written. Tags and the verification of
// hosts are not part of the configuration, and take effect at once.
import type { ComponentChildren, VNode } from 'preact'
import { useState } from 'preact/hooks'
import { ApiError, type Me } from '../../api/client.ts'
import { type Faults, faultAt, listFaults } from '../../api/faults.ts'
import { explainMissing } from '../../api/permissions.ts'
import { usePages, useRead } from '../../api/queries.ts'
import { hostOf } from '../../format/source.ts'
import type { Deployment, Revision } from '../../format/state.ts'
import { ActionButton } from '../../parts/action.tsx'
import { Card } from '../../parts/card.tsx'
import { CopyButton } from '../../parts/copy.tsx'
import { CheckField, Fields, SelectField, TextField } from '../../parts/form.tsx'
import { lazily } from '../../parts/lazily.tsx'
import { Badge } from '../../parts/state.tsx'
import { Ago } from '../../parts/time.tsx'
import type { ChangedFolderProps } from '../new/changed-folder.tsx'
import type { ScreenProps } from '../screen-props.ts'
import { deleteDeployment } from './actions.ts'
import type { DeployHooksProps } from './deploy-hooks.tsx'
import { type Draft, settingOf, withSetting } from './draft.ts'
import { draftOf, previewOf, setDraft } from './draft-store.ts'
import { DeploymentFrame } from './frame.tsx'
import type { ProtectionProps } from './protection.tsx'
import { addTag, createTagKey, createTagValue, removeTag, verifyHost } from './setting-actions.ts'
import { ARCHIVE, listGroups, readValue, type SettingField, type SettingGroup } from './setting-fields.ts'
import styles from './settings.module.css'
import type { TrafficProps } from './traffic.tsx'

const DeployHooks = lazily<DeployHooksProps>(() => import('./deploy-hooks.tsx'))
const ChangedFolder = lazily<ChangedFolderProps>(() => import('../new/changed-folder.tsx'))
const Protection = lazily<ProtectionProps>(() => import('./protection.tsx'))
const Traffic = lazily<TrafficProps>(() => import('./traffic.tsx'))

export default function SettingsPage({ workspace, params, me }: ScreenProps<{ deployment: string }>) {
  return (
    <DeploymentFrame workspace={workspace} id={params.deployment} tab="/settings">
      {(deployment, revisions) => (
        <Settings workspace={workspace} me={me} deployment={deployment} revisions={revisions} />
      )}
    </DeploymentFrame>
  )
}

type SettingsProps = { workspace: string; me: Me; deployment: Deployment }

function Settings({ workspace, me, deployment, revisions }: SettingsProps & { revisions: Revision[] }) {
  const draft = draftOf(deployment)
  const preview = previewOf(deployment)
  const faults = addHostFault(listFaults(preview.error), preview.error)
  const groups = listGroups(deployment.source)
  const render = (field: SettingField) => (
    <Setting
      key={field.path}
      workspace={workspace}
      me={me}
      deployment={deployment}
      draft={draft}
      faults={faults}
      field={field}
    />
  )
  return (
    <div class={styles.page}>
      {deployment.source === 'internal_source' && !explainMissing(me, workspace, 'deployments:update') && (
        <ChangedFolder workspace={workspace} deployment={deployment} />
      )}
      {groups.map(group => (
        <Group key={group.title} group={group} isOpen={isSet(deployment, draft, group)}>
          <Fields>{group.fields.filter(({ path }) => path !== ARCHIVE).map(render)}</Fields>
          {group.title === 'Address' && <Host workspace={workspace} me={me} deployment={deployment} />}
        </Group>
      ))}
      {deployment.source === 'githost' && deployment.parent_deployment_id === null && (
        <DeployHooks workspace={workspace} me={me} deployment={deployment} />
      )}
      <Protection workspace={workspace} me={me} deployment={deployment} />
      <Traffic deployment={deployment} revisions={revisions} hasSettings />
      <Tags workspace={workspace} me={me} deployment={deployment} />
      <Fixed deployment={deployment} />
      <Danger workspace={workspace} me={me} deployment={deployment} />
    </div>
  )
}

const HOST_CODES = ['custom_host_taken', 'custom_url_taken', 'custom_host_reserved']
/** A host is refused by a code, without a list of faults. */
const addHostFault = (faults: Faults, error: Error | undefined): Faults =>
  error instanceof ApiError && HOST_CODES.includes(error.code)
    ? new Map([...faults, ['source_config.custom_url', error.message]])
    : faults

const isSet = (deployment: Deployment, draft: Draft, { fields }: SettingGroup) =>
  fields.some(({ path }) => settingOf(draft, deployment, path) !== '' || draft.settings.has(path))

type GroupProps = { group: SettingGroup; isOpen: boolean; children: ComponentChildren }
/** Groups that few need are closed until something in them is set. */
function Group({ group: { title, about, isRare }, isOpen, children }: GroupProps) {
  const [wasOpen] = useState(isOpen)
  const text = <p class={styles.about}>{about}</p>
  if (!isRare)
    return (
      <Card title={title}>
        {text}
        {children}
      </Card>
    )
  return (
    <details class={styles.rare} open={wasOpen || isOpen}>
      <summary>
        <h2>{title}</h2>
        {!wasOpen && !isOpen && <span>Not set</span>}
      </summary>
      {text}
      {children}
    </details>
  )
}

type SettingProps = SettingsProps & { draft: Draft; faults: Faults; field: SettingField }

function Setting({ workspace, me, deployment, draft, faults, field }: SettingProps) {
  const { path, label, hint, kind, unit, placeholder, permission } = field
  const value = settingOf(draft, deployment, path)
  const isChanged = draft.settings.has(path)
  const change = (text: string) => setDraft(deployment, withSetting(draft, deployment, path, text))
  const shared = {
    label,
    hint: isChanged && kind !== 'check' ? describeStored(readValue(deployment, path)) : hint,
    fault: faultAt(faults, path),
    isChanged,
    unavailable:
      explainMissing(me, workspace, 'deployments:update') ?? (permission && explainMissing(me, workspace, permission)),
  }
  if (kind === 'check')
    return (
      <CheckField {...shared} checked={value === 'true'} onChange={checked => change(checked ? 'true' : 'false')} />
    )
  return (
    <TextField
      {...shared}
      value={value}
      onChange={change}
      mono={kind !== 'number'}
      rows={kind === 'json' ? Math.min(14, Math.max(3, value.split('\n').length)) : 1}
      {...(placeholder !== undefined && { placeholder })}
      {...(unit !== undefined && { unit })}
      {...(kind === 'number' && { inputMode: 'decimal' as const })}
    />
  )
}

const describeStored = (stored: string) =>
  stored === '' ? 'Not set now' : stored.length > 60 ? 'Another value now' : `Now ${stored}`

// ---- the custom host

function Host({ workspace, me, deployment }: SettingsProps) {
  const url = deployment.source_config.custom_url
  const { data } = useRead(workspace, 'GET /v2/custom-hosts', { query: { limit: 100 } }, { enabled: url !== null })
  if (url === null) return null
  const host = hostOf(url.startsWith('https://') ? url : `https://${url}`).replace(/:\d+$/, '')
  const found = data?.resources.find(one => one.host === host)
  if (!found) return null
  const { verified_at, served, record, unreachable_since, certificate_failed_at } = found
  return (
    <div class={styles.host}>
      <p>
        <code>{host}</code> {verified_at ? <Badge tone="ok">Verified</Badge> : <Badge tone="warn">Not verified</Badge>}{' '}
        {served ? 'Serving.' : 'Not serving until the ownership is verified.'}
        {verified_at && (
          <>
            {' '}
            Verified <Ago time={verified_at} suffix=" ago" />.
          </>
        )}
      </p>
      {unreachable_since && (
        <p>
          <Badge tone="bad">Unreachable</Badge> DNS leads elsewhere. Noticed{' '}
          <Ago time={unreachable_since} suffix=" ago" />. Correct its A, AAAA or CNAME records.
        </p>
      )}
      {certificate_failed_at && (
        <p>
          <Badge tone="bad">Certificate failed</Badge> The last order failed{' '}
          <Ago time={certificate_failed_at} suffix=" ago" />.
        </p>
      )}
      {!verified_at && (
        <>
          <p>Create this TXT record at the DNS of the host, then verify it:</p>
          <dl class={styles.record}>
            {[
              ['Name', record.name],
              ['Value', record.value],
            ].map(([what, text]) => (
              <div key={what}>
                <dt>{what}</dt>
                <dd>
                  <code>{text}</code>
                  <CopyButton text={() => text!} label={`Copy the ${what!.toLowerCase()} of the record`} />
                </dd>
              </div>
            ))}
          </dl>
          <Locked me={me} workspace={workspace}>
            <ActionButton small action={verifyHost(host)} />
          </Locked>
        </>
      )}
    </div>
  )
}

/** Shows the reason instead of a control that the role does not allow. */
function Locked({ me, workspace, children }: Pick<SettingsProps, 'me' | 'workspace'> & { children: VNode }) {
  const refusal = explainMissing(me, workspace, 'deployments:update')
  return refusal ? <p class={styles.locked}>{refusal}</p> : children
}

// ---- tags

function Tags({ workspace, me, deployment }: SettingsProps) {
  const ref = { params: { deployment_id: deployment.id } }
  const { data } = useRead(workspace, 'GET /v2/deployments/{deployment_id}/tags', ref)
  return (
    <Card title="Tags">
      <p class={styles.about}>
        Use tags to find deployments, for example by team. They take effect immediately, without a revision.
      </p>
      {data && data.resources.length === 0 && <p class={styles.about}>No tags.</p>}
      <ul class={styles.tags}>
        {data?.resources.map(tag => (
          <li key={tag.tag_value_id}>
            <span>
              {tag.key}: <b>{tag.value}</b>
            </span>
            <Locked me={me} workspace={workspace}>
              <ActionButton small look="bare" action={removeTag(deployment, tag)} />
            </Locked>
          </li>
        ))}
      </ul>
      <Locked me={me} workspace={workspace}>
        <NewTag workspace={workspace} deployment={deployment} />
      </Locked>
    </Card>
  )
}

const NEW = 'new'

/** Keys and values that do not exist yet are created first: each step is one request. */
function NewTag({ workspace, deployment }: Pick<SettingsProps, 'workspace' | 'deployment'>) {
  const [key, setKey] = useState('')
  const [value, setValue] = useState('')
  const [name, setName] = useState('')
  const keys = usePages(workspace, 'GET /v2/tag-keys', { query: { limit: 100 } }).items ?? []
  const hasKey = keys.some(({ id }) => id === key)
  const { data } = useRead(
    workspace,
    'GET /v2/tag-keys/{tag_key_id}/values',
    { params: { tag_key_id: key }, query: { limit: 100 } },
    { enabled: hasKey },
  )
  const values = hasKey ? (data?.resources ?? []) : []
  const chosenKey = keys.find(({ id }) => id === key)
  const chosenValue = values.find(({ id }) => id === value)
  const isNamed = key === NEW || value === NEW
  const action =
    key === NEW
      ? createTagKey(name)
      : chosenKey && value === NEW
        ? createTagValue(chosenKey, name)
        : chosenKey && chosenValue && addTag(deployment, chosenKey.key, chosenValue)
  return (
    <>
      <Fields>
        <SelectField
          label="Key"
          value={key}
          options={[
            { value: '', label: 'Choose a key' },
            ...keys.map(one => ({ value: one.id, label: one.key })),
            { value: NEW, label: 'A new key …' },
          ]}
          onChange={next => {
            setKey(next)
            setValue('')
          }}
        />
        {chosenKey && (
          <SelectField
            label="Value"
            value={value}
            options={[
              { value: '', label: 'Choose a value' },
              ...values.map(one => ({ value: one.id, label: one.value })),
              { value: NEW, label: 'A new value …' },
            ]}
            onChange={setValue}
          />
        )}
        {isNamed && (
          <TextField label={key === NEW ? 'Name of the key' : 'Name of the value'} value={name} onChange={setName} />
        )}
      </Fields>
      {action && (!isNamed || name.trim()) && (
        <p class={styles.tagAction}>
          <ActionButton small action={action} />
        </p>
      )}
    </>
  )
}

// ---- settings that stay

const SOURCE_WORDS: Record<Deployment['source'], string> = {
  githost: 'Git repository',
  external_container: 'Container image',
  internal_container: 'Pushed container image',
  internal_source: 'Uploaded archive',
  internal_template: 'Template',
}

function Fixed({ deployment: { name, source, source_config } }: { deployment: Deployment }) {
  const { repo_url, template_id, deployment_type, listener_config, listener_id, integration_id } = source_config
  const facts: [string, string | null | undefined][] = [
    ['Name', name],
    ['Source', SOURCE_WORDS[source]],
    ['Repository', repo_url],
    ['Integration', integration_id],
    ['Template', template_id],
    ['Type', deployment_type],
    ['Listener', listener_id],
    ['Namespace', listener_config?.k8s_namespace],
  ]
  return (
    <Card title="Fixed settings">
      <p class={styles.about}>Set when the deployment was created. For other values, create another deployment.</p>
      <dl class={styles.fixed}>
        {facts.map(([label, value]) =>
          value ? (
            <div key={label}>
              <dt>{label}</dt>
              <dd>{label === 'Source' ? value : <code>{value}</code>}</dd>
            </div>
          ) : null,
        )}
      </dl>
    </Card>
  )
}

function Danger({ workspace, me, deployment }: SettingsProps) {
  const { name, url, secrets, source_config } = deployment
  const refusal = explainMissing(me, workspace, 'deployments:delete')
  return (
    <Card title="Delete" tone="bad">
      <div class={styles.danger}>
        <div>
          <p>Deleting {name} cannot be undone. The following is deleted:</p>
          <ul>
            {url && <li>{hostOf(url)} stops responding immediately.</li>}
            <li>All revisions and logs.</li>
            {secrets.length > 0 && (
              <li>{secrets.length === 1 ? 'Secret' : `Its ${secrets.length} secrets`}, which cannot be restored.</li>
            )}
            {Object.keys(source_config.resource_spec ?? {}).some(member => member.startsWith('db_')) && (
              <li>The database with all data.</li>
            )}
            {(source_config.resource_spec?.volumes ?? []).some(volume => volume.persistentVolumeClaim) && (
              <li>The disks with all files.</li>
            )}
          </ul>
        </div>
        {refusal ? <p class={styles.locked}>{refusal}</p> : <ActionButton action={deleteDeployment(deployment)} />}
      </div>
    </Card>
  )
}
