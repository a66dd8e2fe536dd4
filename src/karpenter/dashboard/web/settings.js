// What a person chose for this browser: light or dark, and whether single keys do something.
import { computed, effect, signal } from "./vendor/signals.js";

const KEPT = "karpenter-settings";
const CHOICES = { theme: "auto", hasKeys: true };
const dark = matchMedia("(prefers-color-scheme: dark)");
const isDark = signal(dark.matches);
dark.addEventListener("change", () => { isDark.value = dark.matches; });

function read() {
  try {
    return { ...CHOICES, ...JSON.parse(localStorage.getItem(KEPT)) };
  } catch {
    return CHOICES;
  }
}

export const settings = signal(read());
export const scheme = computed(() =>
  settings.value.theme === "auto" ? (isDark.value ? "dark" : "light") : settings.value.theme);

export function choose(changes) {
  settings.value = { ...settings.value, ...changes };
  localStorage.setItem(KEPT, JSON.stringify(settings.value));
}

effect(() => { document.documentElement.dataset.theme = scheme.value; });
