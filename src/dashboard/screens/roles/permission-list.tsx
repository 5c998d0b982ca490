// The permissions of a role or key, described and grouped.
import { ALL_PERMISSIONS, describePermission, groupPermissions, type Permission } from '../../format/permissions.ts'
import { unavailableControl } from '../../parts/form.tsx'
import { Glyph } from '../../parts/icon.tsx'
import styles from './permissions.module.css'

export const PermissionList = ({ permissions }: { permissions: readonly string[] }) =>
  permissions.length === 0 ? (
    <p class={styles.none}>No permissions.</p>
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
  /** The permissions to choose from. */
  from?: readonly Permission[]
  chosen: readonly Permission[]
  onChange: (chosen: Permission[]) => void
  /** Explains why a permission cannot be chosen. */
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
              {isAll ? 'Select none' : 'Select all'}
            </button>
          )}
          {names.map(name => {
            const locked = explainLocked?.(name)
            return (
              <label key={name} title={locked ?? name} class={locked && styles.locked}>
                <input
                  type="checkbox"
                  checked={chosen.includes(name)}
                  {...unavailableControl(locked)}
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
