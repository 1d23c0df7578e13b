const app = document.getElementById("app");
const info = await (await fetch("/v1/runtime/info")).json();
app.textContent = `Windlass ${info.version}`;
