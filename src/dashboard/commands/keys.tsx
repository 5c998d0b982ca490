// The keys of a command, as on a keyboard.
import styles from './keys.module.css'

/** A capital letter is typed with Shift. */
const namesOf = (key: string): string[] => {
  if (key.length > 1) return [key]
  return key === key.toLowerCase() ? [key.toUpperCase()] : ['Shift', key]
}

export const Keys = ({ keys }: { keys: string }) => (
  <span class={styles.keys}>
    {keys
      .split(' ')
      .flatMap(namesOf)
      .map(key => (
        <kbd key={key}>{key}</kbd>
      ))}
  </span>
)
