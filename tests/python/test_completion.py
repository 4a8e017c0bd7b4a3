"""`tilec completion`: what the shells complete, by the shells themselves."""
import shutil
import subprocess

import pytest

from test_cli import TILEC


def made(shell):
    done = subprocess.run([TILEC, "completion", shell], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def bash(folder, *words):
    """What bash offers for the last of these words, in a folder without files."""
    script = made("bash") + "\nCOMP_WORDS=(%s); COMP_CWORD=%d; _tilec; printf '%%s\\n' \"${COMPREPLY[@]}\"" % (
        " ".join("'%s'" % w for w in words),
        len(words) - 1,
    )
    done = subprocess.run(["bash", "-uc", script], capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_bash_completes_commands_options_and_values(tmp_path):
    assert bash(tmp_path, "tilec", "ru") == ["run"]
    assert set(bash(tmp_path, "tilec", "run", "--grad")) == {"--grad", "--grad-check"}
    assert bash(tmp_path, "tilec", "fmt", "--in") == ["--include", "--in-place"]
    assert bash(tmp_path, "tilec", "f.tile", "--emit", "lo") == ["loops"]
    assert bash(tmp_path, "tilec", "f.tile", "--emit", "=", "lo") == ["loops"]
    assert bash(tmp_path, "tilec", "run", "--target", "op") == ["opencl", "opencl:1"]
    targets = lambda *words: bash(tmp_path, "tilec", "run", "--target", *words)  # noqa: E731
    assert targets("cuda", ":", "m") == targets("=", "cuda", ":", "m") == ["math=tf32", "math=bf16"] and targets(
        "cuda", ":", "math", "=", ""
    ) == targets("=", "cuda", ":", "math", "=") == ["tf32", "bf16"]
    assert set(targets("cuda", ":")) == {"1", "sm_90a", "math=tf32", "math=bf16"} and targets("cpu", ":", "x86-64-v3") == [
        "x86-64-v3"
    ]
    assert bash(tmp_path, "tilec", "bench", "--vs", "to") == ["torch"]
    assert bash(tmp_path, "tilec", "tu") == ["tune"] and bash(tmp_path, "tilec", "tune", "--bu") == ["--budget"]
    assert bash(tmp_path, "tilec", "cache", "")[0] == "clear"
    assert (
        bash(tmp_path, "tilec", "run", "std", ":", "log_softm")[0]
        == bash(tmp_path, "tilec", "std", ":", "log_softm")[0]
        == "log_softmax"
    )
    assert "softmax" in bash(tmp_path, "tilec", "explain", "std", ":")


def test_zsh_reads_it(tmp_path):
    if not shutil.which("zsh"):
        pytest.skip("no zsh")
    (tmp_path / "_tilec").write_text(made("zsh"))
    subprocess.run(["zsh", "-n", tmp_path / "_tilec"], check=True)


def test_fish_completes_commands_options_and_values(tmp_path):
    if not shutil.which("fish"):
        pytest.skip("no fish")
    (tmp_path / "tilec.fish").write_text(made("fish"))
    (tmp_path / "empty").mkdir()

    def offered(line):
        done = subprocess.run(
            ["fish", "-c", "source %s; complete -C '%s'" % (tmp_path / "tilec.fish", line)],
            capture_output=True,
            text=True,
            cwd=tmp_path / "empty",
            env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
        )
        return [row.split("\t")[0] for row in done.stdout.splitlines()]

    assert offered("tilec ru") == ["run"]
    assert offered("tilec run --grad") == ["--grad", "--grad-check"]
    assert offered("tilec f.tile --emit=lo") == ["--emit=loops"]
    assert "std:log_softmax" in offered("tilec run std:log_softm")


def test_the_manual_has_every_option_of_every_command():
    page = made("man")
    assert page.startswith(".TH TILEC 1\n")
    for command in ("run", "build", "test", "fmt", "bench", "compare", "tune"):
        listed = subprocess.run([TILEC, command, "--help"], capture_output=True, text=True).stdout
        section = page.split(".SH tilec %s\n" % command)[1].split(".SH ")[0].replace("\\-", "-")
        for line in listed.splitlines():
            if line.startswith("  -"):
                assert line.split()[0].split(",")[-1].split("=")[0] in section


@pytest.mark.parametrize("arguments", [(), ("csh",), ("bash", "zsh")])
def test_other_words_are_wrong_usage(arguments):
    done = subprocess.run([TILEC, "completion", *arguments], capture_output=True, text=True)
    assert done.returncode == 2 and "bash, zsh, fish or man" in done.stderr
