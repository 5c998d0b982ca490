// What a role or key may do, in words, by what it is about.
import { ALL_PERMISSIONS, describePermission, groupPermissions, type Permission } from '../../format/permissions.ts'
import { Glyph } from '../../parts/icon.tsx'
import styles from './permissions.module.css'

export const PermissionList = ({ permissions }: { permissions: readonly string[] }) =>
  permissions.length === 0 ? (
    <p class={styles.none}>It may do nothing.</p>
  ) : (
    <div class={styles.groups}>
      {groupPermissions(permissions).map(([group, names]) => (
        <section key={group}>
          <h3>{group}</h3>
          <ul>
            {names.map(name => (
              <li key={name} title={name}>
                <Glyph shape="check" tone="ok" />
                {describePermission(name)}
              </li>
            ))}
          </ul>
        </section>
      ))}
    </div>
  )

type PickerProps = {
  /** Those that can be chosen. */
  from?: readonly Permission[]
  chosen: readonly Permission[]
  onChange: (chosen: Permission[]) => void
  /** Why one cannot be chosen. */
  explainLocked?: (name: Permission) => string | undefined
}
export const PermissionPicker = ({ from = ALL_PERMISSIONS, chosen, onChange, explainLocked }: PickerProps) => (
  <div class={styles.groups}>
    {groupPermissions(from).map(([group, names]) => {
      const free = names.filter(name => !explainLocked?.(name))
      const isAll = free.length > 0 && free.every(name => chosen.includes(name))
      const others = chosen.filter(name => !free.includes(name))
      return (
        <fieldset key={group}>
          <legend>{group}</legend>
          {free.length > 1 && (
            <button type="button" onClick={() => onChange(isAll ? others : [...others, ...free])}>
              {isAll ? 'Choose none' : 'Choose all'}
            </button>
          )}
          {names.map(name => {
            const locked = explainLocked?.(name)
            return (
              <label key={name} title={locked ?? name} class={locked && styles.locked}>
                <input
                  type="checkbox"
                  checked={chosen.includes(name)}
                  disabled={locked !== undefined}
                  onChange={({ currentTarget }) =>
                    onChange(currentTarget.checked ? [...chosen, name] : chosen.filter(other => other !== name))
                  }
                />
                <span>
                  {describePermission(name)}
                  {locked && <small>{locked}</small>}
                </span>
              </label>
            )
          })}
        </fieldset>
      )
    })}
  </div>
)
