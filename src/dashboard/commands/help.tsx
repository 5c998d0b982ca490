// All shortcuts of this screen, and the switch that turns them off.
import { Dialog } from '../parts/dialog.tsx'
import { allCommands, isHelpOpen, setShortcuts, shortcutsOn } from './commands.ts'
import styles from './help.module.css'
import { Keys } from './keys.tsx'

export default function Help() {
  const close = () => {
    isHelpOpen.value = false
  }
  return (
    <Dialog title="Shortcuts" onClose={close}>
      <dl class={styles.list}>
        <div>
          <dt>Find or run anything</dt>
          <dd>
            <Keys keys="Ctrl k" />
          </dd>
        </div>
        {allCommands().flatMap(({ id, label, keys }) =>
          keys
            ? [
                <div key={id}>
                  <dt>{label}</dt>
                  <dd>
                    <Keys keys={keys} />
                  </dd>
                </div>,
              ]
            : [],
        )}
      </dl>
      <label class={styles.switch}>
        <input
          type="checkbox"
          checked={shortcutsOn.value}
          onChange={({ currentTarget }) => setShortcuts(currentTarget.checked)}
        />
        Single-key shortcuts
      </label>
    </Dialog>
  )
}
